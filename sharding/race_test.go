//go:build race

package sharding

import "runtime"

// With more than one P, the race detector crashes in timers of testing/synctest now and then:
// golang/go#78156. One run of the suite in three did, none of 240 plays with one P.
func init() { runtime.GOMAXPROCS(1) }
