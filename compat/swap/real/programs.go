package main

// programs are public modules whose tests need no cluster.
var programs = []program{
	{
		module: "k8s.io/cloud-provider", version: "v0.37.2",
		packages: []string{"./controllers/node", "./controllers/route", "./controllers/service"},
		into:     "controllers/service", name: "service",
		// The print test shows the queue of the controller in the package's tests.
		print: `package service

import (
	"fmt"
	"reflect"
	"testing"
)

func TestPrint(t *testing.T) {
	c, _, _ := newController(t.Context())
	fmt.Println("the queue is of " + reflect.TypeOf(c.serviceQueue).Elem().PkgPath())
}
`,
	},
	{
		module: "github.com/fluxcd/pkg/runtime", version: "v0.90.0",
		packages: []string{"./controller", "./predicates", "./leaderelection"},
		into:     "controller", name: "controller_test",
		// The print test shows the queue of a running controller of controller-runtime,
		// as its sources get the queue.
		print: `package controller_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func TestPrint(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		cancel()
		return reconcile.Result{}, nil
	})
	plain := false
	c, err := controller.NewUnmanaged("printed", controller.Options{Reconciler: reconciler, UsePriorityQueue: &plain})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		inner := reflect.ValueOf(q).Elem().Field(0).Elem() // A wrapper has it.
		fmt.Println("the queue is of " + inner.Type().Elem().PkgPath())
		q.Add(reconcile.Request{})
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
}
`,
	},
}
