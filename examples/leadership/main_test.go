package main

import (
	"context"
	"os"
)

func Example() {
	run(context.Background(), os.Stdout)
	// Output:
	// term 1: web, 0 failures
	// term 1 is over, 2 items are queued
	// term 2: cache, 0 failures
	// term 2: db, 0 failures
	// term 2 is over, 0 items are queued
}
