// Package dashboard reads the parts of a Grafana dashboard that the tests need.
package dashboard

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"strings"
)

// A Dashboard is a part of Grafana's JSON model.
type Dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Panels        []Panel
	Templating    struct{ List []Variable }
}

// A Panel is a picture, or the heading of a row of panels.
type Panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  Datasource
	GridPos     struct{ H, W, X, Y int }
	Targets     []Target
	Panels      []Panel // of a collapsed row
	FieldConfig struct{ Defaults struct{ Unit string } }
	Options     struct{ YAxis struct{ Unit string } }
}

// A Datasource says where the data come from.
type Datasource struct{ Type, UID string }

// A Target is a query of a panel.
type Target struct {
	RefID      string
	Expr       string
	Datasource Datasource
}

// A Variable is a choice at the top of the dashboard.
type Variable struct{ Name, Type, Definition string }

// Load reads a dashboard from a file.
func Load(file string) (*Dashboard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := new(Dashboard)
	return d, json.Unmarshal(text, d)
}

// An Expression is a query of the dashboard to Prometheus.
type Expression struct {
	For  string // the panel or the variable
	Expr string
}

var labelValues = regexp.MustCompile(`^label_values\((.+), \w+\)$`)

// Expressions returns all expressions as Grafana sends them: rates are over the interval,
// and a variable has its chosen value, or else All. A variable's own expression selects
// the series that offer its values.
func (d *Dashboard) Expressions(interval string, chosen map[string]string) []Expression {
	var all []Expression
	values := []string{"$__rate_interval", interval}
	for _, v := range d.Templating.List {
		values = append(values, "$"+v.Name, cmp.Or(chosen[v.Name], ".*"))
		if match := labelValues.FindStringSubmatch(v.Definition); match != nil {
			all = append(all, Expression{"variable " + v.Name, match[1]})
		}
	}
	all = appendExpressions(all, d.Panels)
	set := strings.NewReplacer(values...)
	for i := range all {
		all[i].Expr = set.Replace(all[i].Expr)
	}
	return all
}

func appendExpressions(all []Expression, panels []Panel) []Expression {
	for _, p := range panels {
		for _, t := range p.Targets {
			all = append(all, Expression{p.Title + " " + t.RefID, t.Expr})
		}
		all = appendExpressions(all, p.Panels)
	}
	return all
}
