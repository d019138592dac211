// Command crawler visits all pages of a site, and ends when no page is left:
//
//	go run ./crawler
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// site stands for a web server: the links of each page.
var site = map[string][]string{
	"/":         {"/news", "/contact"},
	"/news":     {"/news/1", "/news/2", "/"},
	"/news/1":   {"/news/2"},
	"/news/2":   {"/news/1", "/contact"},
	"/contact":  {"/", "/imprint"},
	"/imprint":  nil,
	"/orphaned": {"/"}, // No page has a link to this page.
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crawler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	c := newCrawler()
	err := c.crawl(ctx, "/")
	fmt.Fprintf(out, "%d pages visited, %d visit failed at first\n", len(c.pages()), c.failures.Load())
	for _, page := range c.pages() {
		fmt.Fprintln(out, page)
	}
	return err
}

type crawler struct {
	queue *workqueue.TypedRateLimiting[string]

	// The queue may be empty while a page is at work, and the work may find more pages. So
	// the crawler counts the pages that were added and are not finished.
	unfinished atomic.Int64
	failures   atomic.Int64
	seen       sync.Map
}

func newCrawler() *crawler {
	return &crawler{queue: workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})}
}

func (c *crawler) add(page string) {
	if _, again := c.seen.LoadOrStore(page, true); !again {
		c.unfinished.Add(1) // Before the Add: a worker may finish the page at once.
		c.queue.Add(page)
	}
}

// crawl ends Run with the last page. EndDrain would be wrong: a queue that drains takes no
// pages from handlers.
func (c *crawler) crawl(ctx context.Context, start string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.add(start)
	quiet := logr.Discard()
	return workqueue.Run(ctx, c.queue, c.visit, workqueue.RunOptions[string]{
		Workers: 4, MaxAttempts: 5, Logger: &quiet,
		OnResult: func(_ context.Context, _ string, result workqueue.HandlerResult) {
			if !result.Again && c.unfinished.Add(-1) == 0 {
				stop()
			}
		},
	})
}

func (c *crawler) visit(ctx context.Context, page string) error {
	info, _ := workqueue.ItemInfoFromContext[string](ctx)
	if page == "/contact" && info.Failures == 0 {
		c.failures.Add(1)
		return errors.New("503 Service Unavailable")
	}
	for _, link := range site[page] {
		c.add(link)
	}
	return nil
}

func (c *crawler) pages() (pages []string) {
	for page := range c.seen.Range {
		pages = append(pages, page.(string))
	}
	slices.Sort(pages)
	return pages
}
