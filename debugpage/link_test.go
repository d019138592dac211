package debugpage_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An operator that set no Page grew by 17 MB: the package parsed its template at the start of each program, and
// html/template has the linker keep all exported methods.
func TestProgramWithoutAPageDoesNotLinkTheTemplate(t *testing.T) {
	if testing.Short() {
		t.Skip("it links two programs")
	}
	for page, want := range map[string]bool{"nil": false, "debugpage.New(debugpage.Options{})": true} {
		if got := links(t, page, "html/template.(*Template).Execute"); got != want {
			t.Errorf("with the page %s: html/template is linked: %v, want %v", page, got, want)
		}
	}
}

// links reports whether a program that serves a page, which may be nil, has a function.
func links(t *testing.T, page, function string) bool {
	t.Helper()
	dir := t.TempDir()
	source := `package main

import (
	"fmt"
	"net/http"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

type options struct{ Page *debugpage.Page }

func main() {
	o := options{Page: ` + page + `}
	fmt.Println(o) // As a library that prints its options, or looks at them by reflection.
	if o.Page != nil {
		debugpage.Add(o.Page, "queue", workqueue.NewTyped[string]())
	}
	http.ListenAndServe("127.0.0.1:0", nil)
}
`
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "internal", "linked", "main.go"): filepath.Join(dir, "main.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": source, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./internal/linked").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	symbols, err := exec.Command("go", "tool", "nm", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(symbols), " T "+function)
}
