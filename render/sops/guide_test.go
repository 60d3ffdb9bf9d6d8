// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
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

// Its command makes an age key that opens a file, once the file's data key is
// encrypted for it.
func TestGuideMakesAnAgeKeyThatOpensFiles(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "secrets.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)^age-keygen (.*)$").FindSubmatch(guide)
	if command == nil {
		t.Fatal("the guide has no age-keygen")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "age-keygen")
	if out, err := exec.Command("go", "build", "-o", program, "filippo.io/age/cmd/age-keygen").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program, strings.Fields(string(command[1]))...)
	run.Dir = dir
	said, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	keys, err := sops.ReadKeys(os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}

	c := readCase(t, "secret")
	if _, _, err := keys.Decrypt(c.name, c.data); err == nil {
		t.Fatal("a key that was just made opens what is encrypted for another")
	}
	public := strings.TrimSpace(strings.TrimPrefix(string(said), "Public key: "))
	file := edit(t, c.data, "enc", func(sealed string) string { return resealed(t, sealed, public) })
	plain, _, err := keys.Decrypt(c.name, file)
	if err != nil {
		t.Fatal(err)
	}
	same(t, c.name, c.want, plain)
}

// resealed is a data key of the test's age key, encrypted for another.
func resealed(t *testing.T, sealed, public string) string {
	t.Helper()
	ours, err := age.ParseIdentities(strings.NewReader(keyFile(t, "age.agekey")))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := age.ParseX25519Recipient(public)
	if err != nil {
		t.Fatal(err)
	}
	key, err := age.Decrypt(armor.NewReader(strings.NewReader(sealed)), ours...)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	armored := armor.NewWriter(&out)
	w, err := age.Encrypt(armored, theirs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, key); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), armored.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
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
