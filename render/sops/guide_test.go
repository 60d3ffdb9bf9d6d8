// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lamplighter.dev/render/sops"
)

// bench is a folder and what GnuPG itself makes in it.
type bench struct{ dir, home string }

func newBench(t *testing.T) bench {
	t.Helper()
	// GnuPG's agent listens on a socket in its home, whose path must be short.
	home, err := os.MkdirTemp("", "lamp")
	if err != nil {
		t.Fatal(err)
	}
	b := bench{t.TempDir(), home}
	t.Cleanup(func() {
		b.run(t, "", "gpgconf", "--kill", "all")
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b bench) run(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = b.dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "GNUPGHOME=" + b.home}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &complaints)
	}
	return string(out)
}

// The commands of the guide make an OpenPGP key that opens a file, once GnuPG
// has encrypted the file's data key for it.
func TestGuideMakesAKeyThatOpensFiles(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "secrets.md"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	for _, script := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		if strings.HasPrefix(script[1], "gpg ") {
			b.run(t, "", "bash", "-euo", "pipefail", "-c", script[1])
		}
	}
	keys, err := sops.ReadKeys(os.DirFS(b.dir), ".")
	if err != nil {
		t.Fatal(err)
	}

	c := readCase(t, "pgp")
	if _, _, err := keys.Decrypt(c.name, c.data); err == nil {
		t.Fatal("a key that was just made opens what is encrypted for another")
	}
	b.run(t, keyFile(t, "alice.asc"), "gpg", "--batch", "--quiet", "--import")
	file := edit(t, c.data, "enc", func(sealed string) string {
		data := b.run(t, sealed, "gpg", "--batch", "--quiet", "--decrypt")
		return b.run(t, data, "gpg", "--batch", "--quiet", "--trust-model", "always", "--armor", "--encrypt", "--recipient", "prod@example.com")
	})
	plain, _, err := keys.Decrypt(c.name, file)
	if err != nil {
		t.Fatal(err)
	}
	same(t, c.name, c.want, plain)
}

// edit changes the values of a key in a YAML file, and nothing else of it.
func edit(t *testing.T, data []byte, key string, change func(string) string) []byte {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == key {
				c.SetString(change(c.Value))
			}
			visit(c)
		}
	}
	visit(&doc)
	out, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
