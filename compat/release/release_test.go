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

// Only the newest section of the changelog can announce a change.
func TestAnnounced(t *testing.T) {
	for text, want := range map[string]bool{
		"# C\n## Unreleased\n- incompatible\n## v0.1.0\n### Incompatible\n": false,
		"# C\n## Unreleased\n### Incompatible changes\n## v0.1.0\n":         true,
		"# C\n## v0.2.0, incompatible\n":                                    true,
		"# Incompatible\n":                                                  false,
	} {
		if got := announced(text); got != want {
			t.Errorf("%q: got %t", text, got)
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
