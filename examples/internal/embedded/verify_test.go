package embedded

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

func TestVerify(t *testing.T) {
	unwanted := fixture.ConfigMap("a")
	unwanted.Labels[mirror.Label] = "false"
	foreign := fixture.Secret("a", "7")
	foreign.Labels = nil
	binary := fixture.ConfigMap("a")
	binary.BinaryData = map[string][]byte{"key": {1}}
	wider, renamed := fixture.Secret("a", "7"), fixture.Secret("a", "7")
	wider.Data["key"] = []byte{2}
	renamed.Data = map[string][]byte{"version": []byte("7")}

	for _, test := range []struct {
		name    string
		objects []object
		want    string // the one problem, if there is one
	}{
		{"nothing", nil, ""},
		{"equal", with(fixture.ConfigMap("a"), fixture.Secret("a", "7")), ""},
		{"not wanted", with(unwanted), ""},
		{"foreign secret", with(foreign), ""},
		{"no mirror", with(fixture.ConfigMap("a")), "default/a: no mirror"},
		{"foreign secret in the way", with(fixture.ConfigMap("a"), foreign), "default/a: no mirror"},
		{"no source", with(fixture.Secret("a", "7")), "default/a: mirror without a source"},
		{"no longer wanted", with(unwanted, fixture.Secret("a", "7")), "default/a: mirror without a source"},
		{"other value", with(fixture.ConfigMap("a"), fixture.Secret("a", "6")), `default/a: mirror has revision="6", source has "7"`},
		{"other key", with(fixture.ConfigMap("a"), renamed), `default/a: mirror has revision="", source has "7"`},
		{"too few values", with(binary, fixture.Secret("a", "7")), "default/a: mirror has 1 values, source has 2"},
		{"other binary value", with(binary, wider), `default/a: mirror has key="\x02", source has "\x01"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := NewCluster(1)
			defer cluster.Close()
			fill(t, cluster, test.objects)
			v := verify(cluster)
			if got := strings.Join(v.problems, "\n"); got != test.want {
				t.Errorf("got problems %q, want %q", got, test.want)
			}
		})
	}
}

// with returns the objects and a pair that is in order.
func with(objects ...object) []object {
	return append(objects, fixture.ConfigMap("b"), fixture.Secret("b", "7"))
}

func fill(t *testing.T, c *Cluster, objects []object) {
	t.Helper()
	for _, obj := range objects {
		var err error
		switch obj := obj.(type) {
		case *corev1.ConfigMap:
			err = c.configMaps.create(obj)
		case *corev1.Secret:
			err = c.secrets.create(obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
