package embedded

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/client-go/tools/cache"
)

// The labels of the controller. The judge writes them again: a wrong label in the
// controller must not pass.
const (
	wantedLabel  = "example.com/mirror"
	managedLabel = "app.kubernetes.io/managed-by"
	managedValue = "mirror-controller"
)

// verdict is the result of a comparison of the whole cluster.
type verdict struct {
	sources  int      // ConfigMaps whose label asks for a Secret
	mirrors  int      // Secrets with our label
	problems []string // a line for each name without the right Secret, sorted
}

// verify compares every ConfigMap with every Secret of the cluster, and asks neither the
// caches nor the functions of the controller: they may have the very bug for verify to
// find.
func verify(c *Cluster) (v verdict) {
	mirrors := make(map[cache.ObjectName]map[string][]byte)
	for name, secret := range c.secrets.all() {
		if secret.Labels[managedLabel] == managedValue {
			mirrors[name] = secret.Data
		}
	}
	v.mirrors = len(mirrors)
	for name, source := range c.configMaps.all() {
		if source.Labels[wantedLabel] != "true" {
			continue
		}
		v.sources++
		want := make(map[string][]byte)
		for key, value := range source.Data {
			want[key] = []byte(value)
		}
		got, found := mirrors[name]
		if !found {
			v.problems = append(v.problems, fmt.Sprintf("%s: no Secret", name))
		} else if !reflect.DeepEqual(got, want) {
			v.problems = append(v.problems, fmt.Sprintf("%s: the Secret has %q, the ConfigMap has %q", name, got, want))
		}
		delete(mirrors, name)
	}
	for name := range mirrors {
		v.problems = append(v.problems, fmt.Sprintf("%s: a Secret without a ConfigMap", name))
	}
	slices.Sort(v.problems)
	return v
}
