// Package bench holds the side-by-side benchmarks of workqueue against
// client-go's queue, controller-runtime's priority queue and, as the limit of
// what a queue can reach, a bare channel or runtime timer.
//
// Each benchmark has a single body over a small interface. The queues satisfy the
// interface without a wrapper, so all pay the same dynamic dispatch.
// Names read Benchmark<Scenario>/impl=<implementation>/<parameter>=<value>, which lets
// benchstat pivot:
//
//	go test -run '^$' -bench Cycle -count 10 ./bench | benchstat -col /impl -
//
// That command runs all repetitions of one implementation before the next, so
// a change in the machine's mood shows up as a difference between them. For
// numbers to keep, the program in report runs them alternately:
//
//	go run ./bench/report
//
// A benchmark whose operation is a batch reports ns/item beside ns/op. With
// -short the populations shrink, which checks that the code works and nothing
// else.
package bench
