package componentbase_test

import (
	"testing"

	"github.com/seed16c08ea7/workqueue/compat/swap/programs"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // sets client-go's provider
)

func TestSeries(t *testing.T) { programs.Print(t, legacyregistry.DefaultGatherer) }
