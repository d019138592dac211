// Package trial has what the commands mutate and planted share: to compile tests of sources that are
// changed in an overlay only, and to run the tests although the change may let them hang, or allocate
// for ever.
package trial

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// WriteOverlay writes an overlay for the compiler into the folder tmp, and returns its name. Sources
// are the texts of files, by their paths.
func WriteOverlay(tmp string, sources map[string]string) (name string, err error) {
	replace := map[string]string{}
	for i, path := range slices.Sorted(maps.Keys(sources)) {
		replace[path] = filepath.Join(tmp, fmt.Sprintf("%d_%s", i, filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(sources[path]), 0o666); err != nil {
			return "", err
		}
	}
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	name = filepath.Join(tmp, "overlay.json")
	return name, os.WriteFile(name, text, 0o666)
}

// Build compiles the tests of the package in dir with an overlay.
func Build(dir, overlay, program string, flags ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", program}, flags...)
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not compile: %w\n%s", dir, err, out)
	}
	return nil
}

// NameOf returns the name of a function, and of a method with the name of the type before it.
func NameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		default:
			return t.(*ast.Ident).Name + "." + fn.Name.Name
		}
	}
}
