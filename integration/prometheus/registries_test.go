package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A figure that deviates is noticed, in each registry.
func TestRegistriesThatDeviateAreNoticed(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer exporter.Close()
	target := strings.TrimPrefix(exporter.URL, "http://")
	s := fake(t, classic, nil) // It answers 1 to everything.
	var out strings.Builder
	err := s.checkRegistries(t.Context(), &out, target)
	if err == nil {
		t.Fatal("nothing is wrong with series that are all 1")
	}
	for _, registry := range registryNames {
		if !strings.Contains(err.Error(), `workqueue_depth{job="`+registry+`", name="ours"}`) {
			t.Errorf("%s: its depth of 1 is not noticed", registry)
		}
	}
	for _, want := range []string{`workqueue_depth{job="componentbase", name="theirs"}`, `job="own", name="ours"}) or vector(0)`, "abandoned_total"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not noticed", want)
		}
	}
}
