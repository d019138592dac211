package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowed are the licences of dependencies that users may get.
var allowed = []string{"Apache-2.0", "MIT", "BSD-3-Clause", "BSD-2-Clause", "ISC"}

// clauses tell a licence by its own sentences. All sentences must be in the text. The first match
// counts: BSD-3-Clause begins with the sentences of BSD-2-Clause.
var clauses = []struct {
	licence string
	all     []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004", "grant of patent license"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "the above copyright notice and this permission notice shall be included"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce", "may be used to endorse or promote products derived"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce"}},
}

// copyleft are words of licences that ask more of users than the allowed licences do. A file can
// have several licences, and a copyleft licence beside an allowed licence is not allowed.
var copyleft = regexp.MustCompile(`gnu (lesser |affero )?general public|mozilla public license|eclipse public license|business source license|server side public|commons clause`)

var space = regexp.MustCompile(`\s+`)

// licenceOf returns the licence of a text, and "" for an unknown text.
func licenceOf(text string) string {
	text = space.ReplaceAllString(strings.ToLower(text), " ")
	if copyleft.MatchString(text) {
		return ""
	}
	for _, c := range clauses {
		if !slices.ContainsFunc(c.all, func(part string) bool { return !strings.Contains(text, part) }) {
			return c.licence
		}
	}
	return ""
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([._-].*)?$`)

// licenceIn returns the licences of the files in a directory, "" for none or an unknown text. A
// module may name several files, and each of them must be known.
func licenceIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		licence := licenceOf(string(text))
		if licence == "" {
			return "", nil
		}
		found = append(found, licence)
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " "), nil
}

// A dependency is a module with packages that the modules of users import, without tests.
type dependency struct{ path, version, dir string }

// dependencies are those of all importable modules, without our own.
func dependencies(t tree) (all []dependency, err error) {
	for _, dir := range modules {
		text, err := command(t.at(dir), nil, "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", "./...")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			if len(fields) == 3 && fields[0] != root {
				all = append(all, dependency{fields[0], fields[1], fields[2]})
			}
		}
	}
	slices.SortFunc(all, func(a, b dependency) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	return slices.Compact(all), nil
}

func checkLicences(t tree) error {
	all, err := dependencies(t)
	if err != nil {
		return err
	}
	if len(all) < 5 {
		return fmt.Errorf("only %d dependencies were found", len(all))
	}
	var errs []error
	for _, d := range all {
		licence, err := licenceIn(d.dir)
		if err != nil {
			return err
		}
		if licence == "" {
			licence = "unknown"
			errs = append(errs, fmt.Errorf("%s %s has no licence of %s in %s", d.path, d.version, strings.Join(allowed, ", "), d.dir))
		}
		fmt.Printf("   %-50s %-40s %s\n", d.path, d.version, licence)
	}
	return errors.Join(errs...)
}
