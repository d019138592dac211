package agenda

// Ticket returns the ticket of the next node.
func (a *Agenda[T]) Ticket() uint32 { return a.ticket }

// SetTicket sets the ticket of the next node, which must not be lower than the ticket of a node
// of the Agenda.
func (a *Agenda[T]) SetTicket(ticket uint32) { a.ticket = ticket }

// Earliest returns the first items in the order of Pop.
func (a *Agenda[T]) Earliest(limit int) (items []T) {
	for _, n := range a.earliest(limit) {
		items = append(items, a.Items.Records.At(n.ref).Item)
	}
	return items
}
