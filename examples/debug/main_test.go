package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue/debugpage"
)

func TestThePageShowsTheLoadAndNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		page := debugpage.New(debugpage.Options{Stuck: 5 * time.Second, Redact: hideTokens})
		wait := start(ctx, page)
		time.Sleep(22500 * time.Millisecond) // In the middle of a burst.
		for query, want := range map[string][]string{
			"/":                                 {"deployments", "webhooks", "stuck"},
			"/?queue=deployments":               {"shop-staging", "By group", "By priority"},
			"/?queue=webhooks&search=customer-": {"customer-7/stuck?token=…", "Failed most"},
		} {
			answer := httptest.NewRecorder()
			page.ServeHTTP(answer, httptest.NewRequest("GET", query, nil))
			body := answer.Body.String()
			for _, w := range want {
				if !strings.Contains(body, w) {
					t.Errorf("%s does not show %s", query, w)
				}
			}
			if strings.Contains(strings.ReplaceAll(body, "token=…", ""), "token=") {
				t.Errorf("%s shows a token", query)
			}
		}
		cancel()
		wait()
	})
}
