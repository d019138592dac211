package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLicenceOf(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person\nobtaining a copy of X ... The above copyright notice and this permission notice shall be included"
	const bsd = "Redistribution and use in source and binary forms ... Redistributions in binary form must reproduce"
	for text, want := range map[string]string{
		mit: "MIT",
		bsd: "BSD-2-Clause",
		bsd + " nor may be used to endorse or promote products derived": "BSD-3-Clause",
		mit + " GNU General Public License":                             "",
		"Mozilla Public License Version 2.0":                            "",
		"All rights reserved.":                                          "",
		"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted": "ISC",
	} {
		if got := licenceOf(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Each file must be known, and there must be one.
func TestLicenceInADirectory(t *testing.T) {
	ours, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		files []string
		want  string
	}{
		{[]string{"LICENSE"}, "Apache-2.0"},
		{[]string{"license.md", "COPYING"}, "Apache-2.0"},
		{[]string{"README", "licence.go"}, ""},
		{nil, ""},
		{[]string{"LICENSE", "LICENSE.gpl"}, ""},
	} {
		dir := t.TempDir()
		for _, name := range row.files {
			text := string(ours)
			if filepath.Ext(name) == ".gpl" {
				text = "GNU General Public License"
			}
			if err := write(dir, name, text); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := licenceIn(dir); err != nil || got != row.want {
			t.Errorf("%q: got %q, %v, want %q", row.files, got, err, row.want)
		}
	}
}

// Of each change, in the words of apidiff and of the list, the changelog has to have the name.
func TestChangesHaveNames(t *testing.T) {
	for change, name := range map[string]string{
		"- F: changed from func() to func(int)":       "F",
		"- (*G[K]).GM: removed":                       "GM",
		"- (*T).M, method set of *T: removed":         "M",
		"- C: value changed from 1 to 2":              "C",
		"- I.Y: added":                                "Y",
		"- T.A: removed":                              "A",
		"- package example.com/q/old: removed":        "old",
		"- ./sub.S: removed":                          "S",
		"func Fs[T comparable](x T) bool":             "Fs",
		"const Max untyped int = 3":                   "Max",
		"type T[K comparable] struct":                 "T",
		"T: field A int":                              "A",
		"T: method Of(x int)":                         "Of",
		"T: method of pointers P(x int) error":        "P",
		"I: method (unexported)":                      "I",
		"type Old = k8s.io/client-go/util/q.New[any]": "Old",
	} {
		if got := nameIn(change); got != name {
			t.Errorf("the name in %q is %q, want %q", change, got, name)
		}
		if left := unnamed([]string{change}, "- `"+name+"` is gone."); len(left) != 0 {
			t.Errorf("%q is not found", left)
		}
		if left := unnamed([]string{change}, "- `"+name+"s` is gone, and `Not"+name+"`."); len(left) != 1 {
			t.Errorf("another name counts for %q", change)
		}
	}
}

// Several sections may be about the next release. The section of a version stands alone.
func TestTopSection(t *testing.T) {
	for log, want := range map[string]string{
		"# C\n\n## Unreleased: X\n\na\n\n### More\n\n## Unreleased: Y\n\nb\n\n## v0.1.0\n\nc\n": "ab",
		"# C\n\n## v0.2.0: X\n\na\n\n## v0.1.0: Y\n\nb\n":                                       "a",
		"# C\n\n## v0.1.0, 2026\n\na\n":                                                         "a",
	} {
		for _, letter := range []string{"a", "b", "c"} {
			if got := topSection(log); strings.Contains(got, "\n"+letter+"\n") != strings.Contains(want, letter) {
				t.Errorf("the newest section of %q is %q", log, got)
			}
		}
	}
}

// fault returns an empty repository with files.
func fault(t *testing.T, files map[string]string) tree {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := write(dir, name, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := command(dir, nil, "git", "init", "-q"); err != nil {
		t.Fatal(err)
	}
	return tree(dir)
}

// Without a tag, what TestExportedNames misses has to be in the changelog.
func TestNamesThatAreGone(t *testing.T) {
	test := func(fails string) map[string]string {
		return map[string]string{
			"compat/go.mod": "module example.com/q\n\ngo 1.26\n", "CHANGELOG.md": "# C\n\n## Unreleased\n\n`Told` is gone.\n",
			"compat/a_test.go": "package q\n\nimport \"testing\"\n\nfunc TestExportedNames(t *testing.T) {" + fails + "}\n",
		}
	}
	for fails, want := range map[string]string{
		``:                             "",
		`t.Error("new: func F()")`:     "",
		`t.Error("gone: func Told()")`: "",
		`t.Error("gone: func Told()"); t.Error("gone: T: field A int")`: "T: field A int",
		`t.Fatal("cannot load")`: "cannot load",
	} {
		err := checkAPI(fault(t, test(fails)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "name these changes") && strings.Contains(err.Error(), "Told")) {
			t.Errorf("%s: got %v, want an error with %q", fails, err, want)
		}
	}
}

// A file for one system, and a test whose constant is too large for an int of 32 bits, are found.
func TestFaultsOfOneSystem(t *testing.T) {
	err := checkBuilds(fault(t, map[string]string{
		"go.mod": "module example.com/q\n\ngo 1.26\n", "q.go": "package q\n\nvar A int\n",
		"q_windows.go": "package q\n\nvar B string = 1\n", "q_test.go": "package q\n\nvar C int = 1 << 40\n",
	}))
	for _, pair := range targets() {
		bad := pair[0] == "windows" || pair[1] == "386"
		if found := err != nil && strings.Contains(err.Error(), pair[0]+"/"+pair[1]+": "); found != bad {
			t.Errorf("%v: a fault is found: %t, want %t", pair, found, bad)
		}
	}
}

func TestTargets(t *testing.T) {
	got := fmt.Sprint(targets())
	if len(targets()) != 8 || strings.Contains(got, "darwin 386") || !strings.Contains(got, "windows 386") {
		t.Errorf("got %s", got)
	}
}

// Each module that users import is checked. The others are named here.
func TestModulesAreAllThatUsersImport(t *testing.T) {
	mods, err := filepath.Glob("../../*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	own := "compat examples integration reliability " + strings.Join(modules, " ")
	for _, mod := range mods {
		if dir := filepath.Base(filepath.Dir(mod)); !strings.Contains(" "+own+" ", " "+dir+" ") {
			t.Errorf("%s is not checked", dir)
		}
	}
	if requires := requirements(); strings.Count(requires, staged) != len(modules) {
		t.Errorf("the program requires\n%s", requires)
	}
}

// A proxy serves a module with the staged version of the root.
func TestStage(t *testing.T) {
	release, proxy := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module " + root + "\n", "a.go": "package workqueue\n",
		"otel/go.mod": "module " + root + "/otel\n\nrequire " + root + " v0.0.0\n\nreplace " + root + " => ../\n", "otel/b.go": "package otelqueue\n",
	} {
		if err := write(release, name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := stage(tree(release), "otel", proxy); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(proxy, root, "otel", "@v")
	mod, err := os.ReadFile(filepath.Join(at, staged+".mod"))
	if err != nil || !strings.Contains(string(mod), root+" "+staged) {
		t.Errorf("the module requires %s, %v", mod, err)
	}
	if info, err := os.Stat(filepath.Join(at, staged+".zip")); err != nil || info.Size() == 0 {
		t.Errorf("no zip: %v", err)
	}
}
