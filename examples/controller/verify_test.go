package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func TestVerify(t *testing.T) {
	unwanted := configMap("a")
	unwanted.Labels[mirrorLabel] = "false"
	foreign := secret("a", "7")
	foreign.Labels = nil
	binary := configMap("a")
	binary.BinaryData = map[string][]byte{"key": {1}}
	wider, renamed := secret("a", "7"), secret("a", "7")
	wider.Data["key"] = []byte{2}
	renamed.Data = map[string][]byte{"version": []byte("7")}

	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string // the one problem, if there is one
	}{
		{"nothing", nil, ""},
		{"equal", with(configMap("a"), secret("a", "7")), ""},
		{"not wanted", with(unwanted), ""},
		{"foreign secret", with(foreign), ""},
		{"no mirror", with(configMap("a")), "default/a: no mirror"},
		{"foreign secret in the way", with(configMap("a"), foreign), "default/a: no mirror"},
		{"no source", with(secret("a", "7")), "default/a: mirror without a source"},
		{"no longer wanted", with(unwanted, secret("a", "7")), "default/a: mirror without a source"},
		{"other value", with(configMap("a"), secret("a", "6")), `default/a: mirror has revision="6", source has "7"`},
		{"other key", with(configMap("a"), renamed), `default/a: mirror has revision="", source has "7"`},
		{"too few values", with(binary, secret("a", "7")), "default/a: mirror has 1 values, source has 2"},
		{"other binary value", with(binary, wider), `default/a: mirror has key="\x02", source has "\x01"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := verify(t.Context(), fake.NewSimpleClientset(test.objects...))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(v.problems, "\n"); got != test.want {
				t.Errorf("got problems %q, want %q", got, test.want)
			}
		})
	}
}

// with returns the objects and a pair that is in order.
func with(objects ...runtime.Object) []runtime.Object {
	return append(objects, configMap("b"), secret("b", "7"))
}
