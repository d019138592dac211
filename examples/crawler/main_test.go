package main

import (
	"context"
	"os"
)

// Whatever the order of the visits, the crawl ends with the last page.
func Example() {
	run(context.Background(), os.Stdout)
	// Output:
	// 6 pages visited, 1 visit failed at first
	// /
	// /contact
	// /imprint
	// /news
	// /news/1
	// /news/2
}
