// Package reliability holds the checks of workqueue that take too long, or too
// many modules, for its own tests: large numbers here, linearizability and
// stress in the packages below.
package reliability
