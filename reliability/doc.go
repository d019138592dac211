// Package reliability holds the checks of workqueue that take too long, or too
// many modules, for its own tests: large numbers and many goroutines here; linearizability,
// stress, mutations and planted bugs in the packages below.
package reliability
