package workqueue

import "fmt"

// ItemState is what a queue has an item for. The zero value is no state. As text, in
// JSON for one, it reads as String says.
type ItemState uint8

// An item can be waiting beside being any of the others.
const (
	ItemQueued        ItemState = 1 + iota // in line for a worker
	ItemInFlight                           // held by a worker
	ItemInFlightAgain                      // the same, and added again since
	ItemWaiting                            // waiting for its due time
	ItemFailed                             // has failed when no retry could come, see [RunOptions].OnStop
)

var itemStates = [...]string{
	ItemQueued:        "queued",
	ItemInFlight:      "in flight",
	ItemInFlightAgain: "in flight, added again",
	ItemWaiting:       "waiting",
	ItemFailed:        "failed",
}

// String returns the state in words.
func (s ItemState) String() string {
	if s.known() {
		return itemStates[s]
	}
	return fmt.Sprintf("ItemState(%d)", uint8(s))
}

func (s ItemState) known() bool { return s > 0 && int(s) < len(itemStates) }

// MarshalText returns the state in words. The error is nil for the states above.
func (s ItemState) MarshalText() ([]byte, error) {
	if !s.known() {
		return nil, fmt.Errorf("workqueue: there is no %v", s)
	}
	return []byte(itemStates[s]), nil
}

// UnmarshalText reads what MarshalText has written, and nothing else.
func (s *ItemState) UnmarshalText(text []byte) error {
	for state, words := range itemStates {
		if state > 0 && words == string(text) {
			*s = ItemState(state)
			return nil
		}
	}
	return fmt.Errorf("workqueue: %q is no state of an item", text)
}
