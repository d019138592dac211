package debugpage_test

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"golang.org/x/time/rate"

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

// Wake, and the limit of a Pace, are calls inside the program. Two handlers beside the page let an operator
// make these calls, behind the password of the page:
//
//	curl -u admin:PASSWORD -X POST 'http://ADDRESS/wake?key=web'  # without a key: all items
//	curl -u admin:PASSWORD -X POST 'http://ADDRESS/pause?on=true'
func Example_operate() {
	pace := rate.NewLimiter(rate.Inf, 0) // No limit, and a limit of 0 is a pause.
	queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{Pace: pace})
	defer queue.ShutDown()
	page := debugpage.New(debugpage.Options{})
	debugpage.Add(page, "deployments", queue)

	admin := http.NewServeMux()
	admin.Handle("/debug/workqueue/", page)
	admin.HandleFunc("POST /wake", func(w http.ResponseWriter, r *http.Request) {
		key := r.FormValue("key")
		woken := queue.WakeFunc(func(item string) bool { return key == "" || item == key })
		fmt.Fprintln(w, woken, "woken")
	})
	admin.HandleFunc("POST /pause", func(w http.ResponseWriter, r *http.Request) {
		limit := rate.Inf
		if r.FormValue("on") == "true" {
			limit = 0
		}
		pace.SetLimit(limit)
		fmt.Fprintln(w, "paused:", queue.Stats().Paused)
	})
	// A page of another site cannot send the password of the browser along with a POST.
	server := http.NewCrossOriginProtection().Handler(protect(admin, "PASSWORD"))

	queue.AddAfter("web", time.Hour)
	queue.AddAfter("db", time.Hour)
	for _, path := range []string{"/wake?key=web", "/wake", "/pause?on=true", "/pause"} {
		request := httptest.NewRequest("POST", path, nil)
		request.SetBasicAuth("admin", "PASSWORD")
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, request)
		fmt.Print(path, " ", answer.Body)
	}
	stranger := httptest.NewRecorder()
	server.ServeHTTP(stranger, httptest.NewRequest("POST", "/wake", nil))
	fmt.Println("without a password:", stranger.Code)
	// Output:
	// /wake?key=web 1 woken
	// /wake 1 woken
	// /pause?on=true paused: true
	// /pause paused: false
	// without a password: 401
}

func protect(next http.Handler, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		if password == "" || user != "admin" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="workqueue"`)
			http.Error(w, "want a password", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
