package main

// programs are those that module proxies have, with tests that need no cluster.
var programs = []program{
	{
		module: "k8s.io/cloud-provider", version: "v0.37.2",
		packages: []string{"./controllers/node", "./controllers/route", "./controllers/service"},
		into:     "controllers/service", name: "service",
		// The queue of the controller that the tests of the package make.
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
}
