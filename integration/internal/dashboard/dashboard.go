// Package dashboard reads what the tests need of a Grafana dashboard.
package dashboard

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
)

// A Dashboard is the part of Grafana's JSON model that the tests look at.
type Dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Panels        []Panel
	Templating    struct{ List []Variable }
}

// A Panel is a picture, or the heading of a row of them.
type Panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  Datasource
	GridPos     struct{ H, W, X, Y int }
	Targets     []Target
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

// An Expression is what the dashboard asks Prometheus for.
type Expression struct {
	For  string // the panel or the variable
	Expr string
}

var labelValues = regexp.MustCompile(`^label_values\((.+), \w+\)$`)

// Expressions returns all expressions, as Grafana sends them when every
// variable is set to All and rates are over the interval. Of a variable it is
// the selector of the series that have its values.
func (d *Dashboard) Expressions(interval string) []Expression {
	var all []Expression
	values := []string{"$__rate_interval", interval}
	for _, v := range d.Templating.List {
		values = append(values, "$"+v.Name, ".*")
		if match := labelValues.FindStringSubmatch(v.Definition); match != nil {
			all = append(all, Expression{"variable " + v.Name, match[1]})
		}
	}
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			all = append(all, Expression{p.Title + " " + t.RefID, t.Expr})
		}
	}
	set := strings.NewReplacer(values...)
	for i := range all {
		all[i].Expr = set.Replace(all[i].Expr)
	}
	return all
}
