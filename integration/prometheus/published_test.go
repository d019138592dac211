package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue/integration/internal/dashboard"
)

func panel(exprs ...string) (p dashboard.Panel) {
	for _, expr := range exprs {
		p.Targets = append(p.Targets, dashboard.Target{Expr: expr})
	}
	return p
}

// Queries are found in the rows of a dashboard too, and one without data is noticed.
func TestPublishedQueryWithoutDataIsNoticed(t *testing.T) {
	row := dashboard.Panel{Type: "row", Panels: []dashboard.Panel{panel(`workqueue_depth{name=~"$Controller"}`)}}
	d := &dashboard.Dashboard{Panels: []dashboard.Panel{panel(publishedTopics[1:]...), panel("go_goroutines"), row}}
	d.Templating.List = []dashboard.Variable{{Name: "Controller"}}
	const missing = `workqueue_depth{name=~"ours-(busy|still)"}`
	first := fake(t, classic, map[string][]sample{missing: nil, "go_goroutines": nil})
	var out strings.Builder
	err := checkPublished(t.Context(), &out, d, []*server{first})
	if err == nil || !strings.Contains(err.Error(), "no data: "+missing) {
		t.Errorf("the error is %v", err)
	}
	if want := "10 of 11 queries of a published dashboard about ours have data\n11 of 11 queries of a published dashboard about theirs have data\n"; out.String() != want {
		t.Errorf("printed is\n%swant\n%s", &out, want)
	}
	// Of two servers one has to have data.
	second := fake(t, native, nil)
	if err := checkPublished(t.Context(), &out, d, []*server{first, second}); err != nil {
		t.Error(err)
	}
}

func TestPublishedDashboardAboutSomethingElseIsNoticed(t *testing.T) {
	d := &dashboard.Dashboard{Panels: []dashboard.Panel{panel("go_goroutines")}}
	_, err := queriesAbout(d, "ours")
	if err == nil || !strings.Contains(err.Error(), "has no query of workqueue_retries_total") {
		t.Errorf("the error is %v", err)
	}
}

// A module that cannot be had is an error that names it, and what the proxy says.
func TestPublishedDashboardThatCannotBeFetched(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not for you", http.StatusForbidden)
	}))
	defer proxy.Close()
	t.Setenv("GOPROXY", proxy.URL)
	t.Setenv("GOMODCACHE", t.TempDir())
	_, err := published(t.Context(), t.TempDir())
	for _, want := range []string{publishedModule, "403 Forbidden", "not for you"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
