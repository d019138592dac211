//go:build !linux

package main

import "time"

// awaitIdle never finds a process idle, as only the Linux version reads the states of
// threads. The limit wall ends a run that waits for ever.
func awaitIdle(group int, limit time.Duration, stop <-chan struct{}) bool {
	<-stop
	return false
}
