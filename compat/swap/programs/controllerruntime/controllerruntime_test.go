package controllerruntime_test

import (
	"testing"

	"github.com/seed16c08ea7/workqueue/compat/swap/programs"
	_ "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue" // sets client-go's provider
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func TestSeries(t *testing.T) { programs.Print(t, metrics.Registry) }
