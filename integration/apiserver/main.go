// Command apiserver builds a kube-apiserver and an etcd from Go modules, and prints
// the directory that holds them. envtest of controller-runtime starts them from
// there, see `make apiserver-test`.
//
// Kubernetes publishes its programs for few platforms, and the archives of envtest
// come from a site of their own. The modules are what every Go program here is made
// of, and their checksums are known. Needs the module proxy and 4 to 7 minutes of
// two processors once for each user; the directory lies in the cache of the user and
// can be deleted at any time.
//
//	go run ./apiserver
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed16c08ea7/workqueue/integration/internal/apiserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := apiserver.Programs(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
