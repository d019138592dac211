// Package attack tries to break the queue from outside: the tests follow the
// documentation of workqueue, and not its source.
//
//	TestStorage   a sequential model of a Typed over a storage that panics, ends
//	              the goroutine or keeps what it failed to take, beside metrics
//	              that panic; items that differ from themselves among the others
//	TestDelays    a sequential model of a TypedRateLimiting on a clock that is set
//	              forth and back; every Snapshot is compared whole
//	TestPriorities
//	              a sequential model of a TypedDelaying with a Priority function
//	              that changes its mind, beside adds that name priorities
//	TestGroups    a model of the hand-outs of a Typed with groups whose names,
//	              weights and limits change, and that are taken back by a metric
//	TestLiveness  workers that park while groups are full: no wake-up is lost
//	TestClientGo  the same calls to a queue of client-go, as far as both have them
//	TestRun       random handlers, one Run or two on a queue, any end: each item
//	              was handled, or is named by the error
//	TestChaos     all methods from many goroutines, with versions of the items as
//	              the account: nothing lost, nothing held twice, no goroutine left
//	TestStats     more priorities and groups than parts: the parts add up
//	TestScrapes   queues begin, work and end beside scrapes of one registry
//	TestZeroValue every method of a Typed without a constructor
//
// Without flags a test plays a fixed number of rounds, in about a second. The
// long form plays each test for the time after -for:
//
//	go test -C reliability -v -timeout 24h ./attack -for 10m -seed 1000
//
// A failure names the seed of its round, which -seed and -rounds 1 play again.
package attack
