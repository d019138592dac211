package debugpage_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

func hideTokens(key string) string {
	before, _, _ := strings.Cut(key, "?token=")
	return before
}

func ExampleAdd() {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	queue.Add("customer-7/order-1?token=secret")

	page := debugpage.New(debugpage.Options{Redact: hideTokens})
	debugpage.Add(page, "deployments", queue)
	http.Handle("/debug/workqueue/", page)

	answer := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/workqueue/?queue=deployments", nil))
	fmt.Println(strings.Contains(answer.Body.String(), "customer-7/order-1"), strings.Contains(answer.Body.String(), "secret"))
	// Output: true false
}
