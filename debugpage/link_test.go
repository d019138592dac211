package debugpage_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A template looks methods up by their names, so the linker kept all exported methods of a program with a page: an
// operator grew by 15 MB, and a program with the clientset of client-go by 40 MB.
func TestPageDoesNotKeepMethodsThatNobodyCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("it links two programs")
	}
	for _, row := range []struct {
		imports []string
		do      string
		want    bool
	}{
		{[]string{"net/http", "github.com/seed16c08ea7/workqueue", "github.com/seed16c08ea7/workqueue/debugpage"},
			`page := debugpage.New(debugpage.Options{})
			debugpage.Add(page, "queue", workqueue.NewTyped[string]())
			http.ListenAndServe("127.0.0.1:0", page)`, false},
		{[]string{"html/template", "os"}, `template.New("").Execute(os.Stdout, nil)`, true}, // The test would notice.
	} {
		if got := keeps(t, row.imports, row.do); got != row.want {
			t.Errorf("with %s: the method is linked: %v, want %v", row.do, got, row.want)
		}
	}
}

// keeps reports whether a program has a method that nobody calls.
func keeps(t *testing.T, imports []string, do string) bool {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport \"fmt\"\n"
	for _, path := range imports {
		source += "import " + strconv.Quote(path) + "\n"
	}
	source += `
type seen struct{}

func (seen) NobodyCalls() { fmt.Println("kept") }

func main() {
	fmt.Println(seen{}) // By reflection.
	` + do + `
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
	if out, err := exec.Command("go", "build", "-tags", "workqueue_noprometheus", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./internal/linked").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	symbols, err := exec.Command("go", "tool", "nm", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(symbols), " T main.seen.NobodyCalls")
}
