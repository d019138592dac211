// Package sharding spreads the keys of one controller over its replicas, on Kubernetes' own
// Leases and client-go's own leader election. Each replica works on a share of the keys, and
// the shares move when replicas come and go.
//
//	shards, err := sharding.New(config, sharding.Options{Name: "pods", Namespace: "system", Identity: os.Getenv("POD_NAME")})
//	informer.AddIndexers(shards.Indexers())
//	informer.AddEventHandler(shards.Handler(handler))
//	err = sharding.Attach(ctx, shards, queue, sharding.Lister(informer.GetIndexer(), keyOf))
//	go func() { over <- shards.Run(ctx) }()
//	err = workqueue.Run(ctx, queue, sharding.Handle(shards, sync), workqueue.RunOptions[string]{})
//	err = errors.Join(err, <-over) // Run gives the Leases back.
//
// # Slots and members
//
// A key maps to a slot by a hash of namespace and name, see [Shards.SlotOf]. The number of
// slots is the same in all replicas, and fixed for the life of the set: each Lease says the number,
// and [Shards.Run] what another number does. Each slot is one Lease, and the replica that the Lease
// names works on the keys of the slot.
//
// Each replica is a member, and has a Lease of its own. A member whose Lease stays unchanged
// for a LeaseDuration is gone. Each replica computes the same assignment of slots to members,
// from nothing but the names of the members: rendezvous hashing in which no member has more
// than the ceiling or less than the floor of slots / members.
//
// # States of a slot
//
// Each replica has a state for each slot:
//
//	away      no goroutine, no request
//	trying    an elector of client-go tries to write our identity into the Lease
//	held      the Lease names us, and the gate is open: handlers may begin
//	leaving   the gate is shut, the elector still renews, handlers that have begun go on
//	ending    the ownership is over, the contexts of handlers have ended
//
//	away    -> trying    the slot is assigned to us, and the Lease is free
//	trying  -> held      the first write has succeeded, see below; OnGained, gate open, list, add
//	trying  -> away      the Lease names another, or the assignment has changed
//	held    -> leaving   the slot is assigned to another member that has renewed since, or Run ends
//	held    -> ending    the Lease does not name us, is gone, or was not renewed in time
//	leaving -> ending    likewise
//	leaving -> away      no handler is left; OnLost, release
//	ending  -> away      no handler is left; OnLost, release if the Lease names us still
//
// A Lease is free at once if it names this process, or was released. A release is a record without a
// holder and with 1 for LeaseDurationSeconds, as this package and client-go write. Any other Lease
// is free when this process has seen the same record for a LeaseDuration: also one whose holder was
// cleared by hand.
//
// A slot without a Lease is free a LeaseDuration after the deletion, or after the list that does not
// show the Lease. After a deletion that the watch has shown, the slot is free at once for the process
// that the Lease named, and for each process if the Lease was released. No list tells whether the set
// is new, or whether somebody has deleted the Leases of replicas that work, so the first start of a set
// takes a LeaseDuration. A Lease with the name of a slot and without the labels of the set may be
// another program's, and is never taken: one line in the log says what to do.
//
// The watch may be late: another may have made a Lease that was then deleted. So a slot whose Lease
// this process has made is held when the watch has shown that Lease, and nobody else before for a
// LeaseDuration.
//
// An expired Lease is adopted with the resourceVersion that was seen, so of several
// replicas one succeeds. There are no standby electors: one watch of the Leases says when a
// slot is free.
//
// # Invariants
//
//  1. A handler begins only in state held, and only before the end of the validity:
//     validUntil = time at which the last successful renewal was sent + RenewDeadline. An answer
//     that arrives later does not bring the ownership back.
//  2. The record is released only when no handler of the slot is left, and only if the record
//     names this process.
//  3. A record of the same or a later epoch that does not name this process ends the ownership at
//     once, and so does a deletion. A record of an earlier epoch is late, and changes nothing.
//  4. A process tries for a slot again only when no handler of its last ownership is left.
//  5. The epoch of a slot grows with each ownership, up to MaxInt32, unless the Lease was deleted.
//  6. No time stamp of another machine is compared with a clock.
//
// # Bounds
//
// With L for LeaseDuration, D for RenewDeadline, B for CancelBound and P for RetryPeriod:
//
//	handlers are cancelled               at the latest D after the last renewal was sent
//	handlers have ended, or OnOverrun    at the latest D + B after that
//	another replica may adopt            at the earliest L after that
//	margin for clocks and the scheduler  L - D - B, 2 s by default: clock rates may differ by 6 %
//	owner after a kill                   at most L, and D/2 + 2.2 P more for a lost request; for a replica
//	                                     that starts later, from its first list
//	owner in a set that never ran        L after the start
//	notice that a record names another   at most P and a request, when no watch event tells
//	requests a second                    slots/P + members/P
//
// A lost request is over after D/2, and the elector waits P to 2.2 P before its next try.
//
// Kubernetes promises one holder in the record. One worker for a key is the promise of this
// package, and holds while handlers heed their contexts within B, and the machine gives the
// process its CPU within the margin. A process that is stopped in the middle of a handler, and
// continues after L, goes on with what it had begun. Only writes with a resourceVersion are
// safe from such a handler. See the README for what else is out of reach.
//
// # Goroutines and locks
//
// Run has one goroutine for the plan, one for the membership, one reflector, and two for each
// slot that is not away: the elector, and the steps of the slot. All of them have ended when
// Run returns, unless a handler has outlived its bounds.
//
// There are three kinds of locks. Shards.mu guards which slots have a goroutine. A slot's mu
// guards its gate, validity and handlers in flight. The view's mu guards what the watch has
// shown. Shards.mu may be held while one of the others is taken, and no other two are held at
// a time. No foreign code is called with a lock held.
package sharding
