package fifo

// A Rank is the priority of an add, and whether the add has named the priority. If not, the
// Priority is the answer of the Order.
type Rank struct {
	Priority int
	Named    bool
}

// A Placement says to which lane an add belongs: its rank, and the answers of the functions of
// the Order of the queue. A nil *Placement belongs to a plain add in a queue without such functions.
type Placement struct {
	Rank
	Group         string
	Weight, Limit int // of the group; a weight of 0 means that the Order has no groups. A negative limit holds the group back

	// Waited means that the answers are as old as the begin of a wait. Later adds may have
	// changed the weight and the limit of the group.
	Waited bool

	Era uint32 // how often LimitsChanged had been called when the answers were asked for
}

// Number returns the priority, 0 for a plain add.
func (p *Placement) Number() int {
	if p == nil {
		return 0
	}
	return p.Priority
}

// SetRank replaces the priority that the order has answered. A nil Placement has the rank 0.
func (p *Placement) SetRank(k Rank) {
	if p != nil {
		p.Rank = k
	}
}

// RankOf returns the rank, that of a plain add for nil.
func (p *Placement) RankOf() Rank {
	if p == nil {
		return Rank{}
	}
	return p.Rank
}
