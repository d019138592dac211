package linearizability

func (c *client) drainOnce() (none result) {
	c.queue.ShutDownWithDrain()
	return none
}
