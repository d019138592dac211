// Command page shows the page of the package debugpage in a real browser, and compares what the
// browser shows with the queue:
//
//   - The numbers and the keys of each list are those of the queue.
//   - Links, the form and the refresh work with JavaScript switched off.
//   - Hostile keys are text, with JavaScript switched on: no dialog opens, nothing is loaded, and no
//     element comes from a key.
//   - The style is applied, in light and in dark, although the Content-Security-Policy allows nothing
//     but its hash.
//   - At 400 pixels, the page is no wider than the window.
//
// With a second argument, page writes pictures of examples/debug in light and in dark to that
// directory.
//
// The first run downloads the Debian package chromium with its dependencies, unless the machine has
// the program. Nothing is installed. Later runs need the loopback interface only.
//
//	go run ./page .. [DIRECTORY]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
)

// most is the longest time of a run, with the download.
const most = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: page ROOT-OF-THE-REPOSITORY [DIRECTORY-FOR-PICTURES]")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, pictures []string) error {
	browser, end, err := start(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := check(browser); err != nil {
		return err
	}
	if len(pictures) > 0 {
		return shoot(browser, root, pictures[0])
	}
	return nil
}

// start starts the browser with a profile of its own. end ends the browser and waits for it.
func start(ctx context.Context) (browser context.Context, end func(), err error) {
	path, env, err := debian.Browser(ctx)
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.Env(env...),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(time.Minute),
	)
	allocator, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, cancelBrowser := chromedp.NewContext(allocator)
	end = func() {
		cancelBrowser()
		cancelAllocator()
		chromedp.FromContext(browser).Allocator.Wait()
	}
	if err := chromedp.Run(browser); err != nil {
		end()
		return nil, nil, fmt.Errorf("the browser %s does not start: %w", path, err)
	}
	return browser, end, nil
}
