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

	failures atomic.Int64
	seen     sync.Map
}

func newCrawler() *crawler {
	return &crawler{queue: workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})}
}

func (c *crawler) add(page string) {
	if _, again := c.seen.LoadOrStore(page, true); !again {
		c.queue.Add(page)
	}
}

// crawl ends Run when no page is queued, at work or waiting for a retry. An empty queue says
// less: the page at work may have links. EndDrain would be wrong: a queue that drains takes no
// pages from handlers.
func (c *crawler) crawl(ctx context.Context, start string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.add(start)
	go func() {
		if c.queue.WaitEmpty(ctx) == nil {
			stop()
		}
	}()
	quiet := logr.Discard()
	return workqueue.Run(ctx, c.queue, c.visit, workqueue.RunOptions[string]{
		Workers: 4, MaxAttempts: 5, Logger: &quiet,
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
