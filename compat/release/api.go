package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// apidiff is the program that knows the rules of compatibility.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e"

// checkAPI compares the API of each module with the last tag. A module that the tag lacks is new.
// Without a tag, checkAPI compares the names with the list that a test keeps. The list has no
// rules for what a change breaks.
func checkAPI(t tree) error {
	tag, err := command(string(t), nil, "git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
	if err != nil {
		fmt.Println("   no tag v* before this commit, or a clone without tags: the names of compat/testdata/exported.txt")
		gone, err := goneFromList(t)
		if err != nil {
			return err
		}
		fmt.Printf("   %d of them are gone\n%s", len(gone), indent(gone))
		return told(t, gone)
	}
	tag = strings.TrimSpace(tag)
	old, err := os.MkdirTemp("", "release-api")
	if err != nil {
		return err
	}
	defer os.RemoveAll(old)
	archive := filepath.Join(old, "tree.tar")
	if _, err := command(string(t), nil, "git", "archive", "-o", archive, tag); err != nil {
		return err
	}
	if _, err := command(old, nil, "tar", "-xf", archive); err != nil {
		return err
	}
	var all []string
	for _, dir := range modules {
		if _, err := os.Stat(tree(old).at(dir + "/go.mod")); err != nil {
			fmt.Printf("   %s is not in %s\n", modulePath(dir), tag)
			continue
		}
		broken, err := incompatible(tree(old), t, dir)
		if err != nil {
			return err
		}
		fmt.Printf("   %s since %s: %d incompatible changes\n%s", modulePath(dir), tag, len(broken), indent(broken))
		all = append(all, broken...)
	}
	return told(t, all)
}

// incompatible returns the incompatible changes of a module, one in a line.
func incompatible(old, now tree, dir string) ([]string, error) {
	files := [2]string{old.at("old.export"), old.at("new.export")}
	for i, t := range []tree{old, now} {
		if _, err := command(t.at(dir), nil, "go", "run", apidiff, "-m", "-w", files[i], modulePath(dir)); err != nil {
			return nil, err
		}
	}
	text, err := command(now.at(dir), nil, "go", "run", apidiff, "-m", "-incompatible", files[0], files[1])
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "Ignoring internal")
	}), nil
}

func indent(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "      %s\n", line)
	}
	return text.String()
}

// goneFromList returns the lines of the list that no package has any more. TestExportedNames
// fails for each such line, and for each new name.
func goneFromList(t tree) (gone []string, err error) {
	_, failed := command(t.at("compat"), nil, "go", "test", "-count=1", "-run", "^TestExportedNames$", ".")
	if failed == nil {
		return nil, nil
	}
	for line := range strings.Lines(failed.Error()) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "gone: "); ok {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 && !strings.Contains(failed.Error(), "new: ") {
		return nil, failed
	}
	return gone, nil
}

// told fails for changes that the changelog of the next release does not name.
func told(t tree, changes []string) error {
	changelog, err := os.ReadFile(t.at("CHANGELOG.md"))
	if err != nil {
		return err
	}
	if left := unnamed(changes, topSection(string(changelog))); len(left) > 0 {
		return fmt.Errorf("the newest section of CHANGELOG.md does not name these changes:\n%s", indent(left))
	}
	return nil
}

// topSection returns the part of the changelog about the next release: the sections before the first
// section of another version. Several sections may be Unreleased.
func topSection(changelog string) string {
	sections := regexp.MustCompile(`(?m)^## `).Split(changelog, -1)[1:]
	version := func(section string) string {
		return strings.TrimRight(strings.Fields(section)[0], ":,")
	}
	end := 0
	for end < len(sections) && version(sections[end]) == version(sections[0]) {
		end++
	}
	return strings.Join(sections[:end], "")
}

// unnamed returns the changes whose names a text does not have.
func unnamed(changes []string, text string) []string {
	return slices.DeleteFunc(slices.Clone(changes), func(change string) bool {
		return regexp.MustCompile(`\b` + nameIn(change) + `\b`).MatchString(text)
	})
}

var (
	listed   = regexp.MustCompile(`^(?:type|func|const|var) (\w+)|^\w+: (?:field|method of pointers|method) (\w+)`)
	brackets = regexp.MustCompile(`\[.*?\]`)
	word     = regexp.MustCompile(`\w+`)
)

// nameIn returns the name in a line of the list, or in a message of apidiff: of a method or a field,
// its own name. apidiff writes "- T.Method: removed" and "- (*T).Method, method set of *T: removed".
func nameIn(change string) string {
	if m := listed.FindStringSubmatch(change); m != nil {
		return m[1] + m[2]
	}
	head, _, _ := strings.Cut(change, ": ")
	head, _, _ = strings.Cut(brackets.ReplaceAllString(head, ""), ",")
	names := word.FindAllString(head, -1)
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}
