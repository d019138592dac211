package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// pseudo is a version that nobody has published. The checksum database may have no sum of a
// commit, so the files are those of a release, whose sum the database has.
const pseudo = "v0.0.0-20240102030405-abcdefabcdef"

// commitOfClientGo publishes the pseudo-version in a proxy of files, and returns the
// environment that has it, with a module cache of its own.
func commitOfClientGo(release, dir string) ([]string, error) {
	out, err := run("", "go", "mod", "download", "-json", "k8s.io/client-go@"+release)
	if err != nil {
		return nil, err
	}
	var fetched struct{ GoMod, Zip string }
	if err := json.Unmarshal([]byte(out), &fetched); err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(fetched.GoMod)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, "proxy", "k8s.io", "client-go", "@v")
	if err := os.MkdirAll(at, 0o777); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{".mod": string(mod), ".info": fmt.Sprintf(`{"Version":%q}`, pseudo)} {
		if err := os.WriteFile(filepath.Join(at, pseudo+name), []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	if err := rezip(fetched.Zip, filepath.Join(at, pseudo+".zip"), release); err != nil {
		return nil, err
	}
	out, err = run("", "go", "env", "GOMODCACHE", "GOPROXY")
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) < 2 {
		return nil, fmt.Errorf("go env: %q, %w", out, err)
	}
	return []string{
		"GOMODCACHE=" + filepath.Join(dir, "modules"), "GOFLAGS=-trimpath -modcacherw", "GONOSUMDB=k8s.io/client-go",
		"GOPROXY=" + fileURL(filepath.Join(dir, "proxy")) + "," + fileURL(filepath.Join(lines[0], "cache", "download")) + "," + lines[1],
	}, nil
}

func fileURL(path string) string { return "file://" + strings.ReplaceAll(path, " ", "%20") }

// rezip copies the zip of a module, for the pseudo-version.
func rezip(from, to, release string) error {
	r, err := zip.OpenReader(from)
	if err != nil {
		return err
	}
	defer r.Close()
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	w := zip.NewWriter(file)
	for _, f := range r.File {
		raw, err := f.OpenRaw()
		if err != nil {
			return err
		}
		header := f.FileHeader
		header.Name = strings.Replace(header.Name, "@"+release+"/", "@"+pseudo+"/", 1)
		part, err := w.CreateRaw(&header)
		if err != nil {
			return err
		}
		if _, err := io.Copy(part, raw); err != nil {
			return err
		}
	}
	return w.Close()
}
