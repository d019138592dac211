// Package debugpage is a page inside the program that shows what its queues do: what is in flight
// and for how long, what waits until when, how deep each priority and each group is, what has
// failed most, and the item with a certain key.
//
//	page := debugpage.New(debugpage.Options{})
//	debugpage.Add(page, "deployments", queue)
//	http.Handle("/debug/workqueue/", page)
//
// The page only reads. It is HTML without scripts and without files from elsewhere, and the same as
// JSON with format=json in the query:
//
//	?                        all queues
//	?queue=NAME              a queue
//	?queue=NAME&search=S     the items with S in their key
//	?refresh=5               the page again every 5 seconds, with any of the above
//	?format=json             JSON, with any of the above
//	?queue=NAME&format=keys  the state and the key of each item, as text
//
// The keys on the page may be secret. The page asks for no password: mount the page where profiles
// are mounted, for the same readers, and give [Options] a Redact.
//
// # Cost
//
// The page has no goroutine and takes no part in the work of a queue. All work is done by
// requests. A request for a queue calls Stats, a Snapshot of 20 items and one of 100, and one walk over
// the items by Items, which ends after [WalkTime]. A request for all queues calls the first two of each.
// The result is kept for a second. Requests for a queue take turns, and a request that has waited for 5
// seconds gets 503. A request for the keys walks over all items, however long that takes, and takes no
// turn. The points of the charts are taken by requests, one each second at most, and the last 120 are kept.
//
// # JSON
//
// The schema is [Report]. Fields are added and not renamed. A field is left out where it is zero,
// unless the comment of the field says otherwise. Durations are in seconds.
package debugpage
