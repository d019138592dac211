package embedded

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		report report
		err    error
		want   string // the line
		wrong  bool   // whether an error is returned
	}{
		{"well", report{verdict: verdict{sources: 3}}, nil, "CONVERGED: each of the 3 ", false},
		{"a mirror differs", report{verdict: verdict{problems: []string{"a"}}}, nil, "NOT CONVERGED: 1 names", true},
		{"cut short", report{}, errors.New("interrupted"), "FAILED: ", true},
		{"two workers", report{counts: counts{overlaps: 1}}, nil, "FAILED: ", true},
	} {
		var out bytes.Buffer
		err := test.report.judge(&out, test.err)
		if got := out.String(); !strings.HasPrefix(got, test.want) || (err != nil) != test.wrong {
			t.Errorf("%s: got %q and error %v, want %q", test.name, got, err, test.want)
		}
	}
}
