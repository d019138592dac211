package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// sample is an element of the result of a query.
type sample struct {
	Metric map[string]string
	// Prometheus sends either [time, "value"] or [time, histogram].
	Value     []json.RawMessage
	Histogram []json.RawMessage
}

// value returns the number of a sample, and whether it has one.
func (s sample) value() (float64, bool) {
	if len(s.Value) != 2 {
		return 0, false
	}
	var text string
	if json.Unmarshal(s.Value[1], &text) != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// query asks the server for an instant vector.
func (s *server) query(ctx context.Context, expr string) ([]sample, error) {
	var vector struct{ Result []sample }
	return vector.Result, s.get(ctx, "query", url.Values{"query": {expr}}, &vector)
}

// number queries an expression. Anything but a single number is an error.
func (s *server) number(ctx context.Context, expr string) (float64, error) {
	samples, err := s.query(ctx, expr)
	if err != nil {
		return 0, err
	}
	if len(samples) != 1 {
		return 0, fmt.Errorf("%d samples", len(samples))
	}
	v, ok := samples[0].value()
	if !ok {
		return 0, fmt.Errorf("%+v is not a number", samples[0])
	}
	return v, nil
}

// get calls the server's API.
func (s *server) get(ctx context.Context, call string, values url.Values, data any) error {
	address := "http://" + s.address + "/api/v1/" + call + "?" + values.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}
