package sharding_test

import (
	"context"
	"errors"
	"os"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/sharding"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A controller on informers of client-go and a queue of package workqueue.
func Example() {
	run := func(ctx context.Context, config *rest.Config, sync func(context.Context, cache.ObjectName) error) error {
		shards, err := sharding.New(config, sharding.Options{Name: "pods", Namespace: "system", Identity: os.Getenv("POD_NAME")})
		if err != nil {
			return err
		}
		queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "pods"})
		factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
		pods := factory.Core().V1().Pods().Informer()
		if err := pods.AddIndexers(shards.Indexers()); err != nil {
			return err
		}
		add := func(obj any) {
			if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				queue.Add(key)
			}
		}
		if _, err := pods.AddEventHandler(shards.Handler(cache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add,
		})); err != nil {
			return err
		}
		if err := sharding.Attach(ctx, shards, queue, sharding.Lister(pods.GetIndexer(), cache.ObjectToName)); err != nil {
			return err
		}
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		working, stop := context.WithCancel(ctx)
		defer stop()
		over := make(chan error, 1)
		go func() {
			defer stop() // Without an owner of slots the workers would wait for ever.
			over <- shards.Run(working)
		}()
		err = workqueue.Run(working, queue, sharding.Handle(shards, sync), workqueue.RunOptions[cache.ObjectName]{Workers: 4})
		stop()
		return errors.Join(err, <-over) // Run gives the Leases back.
	}
	_ = run
}
