// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

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

// The rules of the guide's .sops.yaml are those by which SOPS has encrypted a case,
// and each file that the guide encrypts comes under the one for its kind.
func TestGuideEncryptsByRulesOfTheCases(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "secrets.md"))
	if err != nil {
		t.Fatal(err)
	}
	config := regexp.MustCompile("(?s)```yaml\n(creation_rules:.*?)```").FindSubmatch(guide)
	if config == nil {
		t.Fatal("the guide has no creation rules")
	}
	var said struct {
		Rules []map[string]string `yaml:"creation_rules"`
	}
	if err := yaml.Unmarshal(config[1], &said); err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`(?m)^sops encrypt --in-place (\S+)$`).FindAllSubmatch(guide, -1)
	if len(files) != 2 {
		t.Fatalf("the guide encrypts %d files, want a Secret and a dotenv file", len(files))
	}
	for i, name := range []string{"secret", "dotenv"} {
		file := string(files[i][1])
		if c := readCase(t, name); filepath.Ext(file) != filepath.Ext(c.name) {
			t.Errorf("%s is no file like %s of the case %s", file, c.name, name)
		}
		for _, rule := range said.Rules {
			path, err := regexp.Compile(rule["path_regex"])
			if err != nil {
				t.Fatal(err)
			}
			if !path.MatchString(file) {
				continue
			}
			rule = maps.Clone(rule)
			delete(rule, "path_regex")
			if diff := cmp.Diff(ruleOf(t, name), rule); diff != "" {
				t.Errorf("%s is encrypted by another rule than the case %s (-case +guide):\n%s", file, name, diff)
			}
			break // the first that matches counts
		}
	}
}

// ruleOf is the creation rule with which a case begins.
func ruleOf(t *testing.T, name string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var rule map[string]string
	if err := yaml.Unmarshal(archive.Comment, &rule); err != nil {
		t.Fatal(err)
	}
	return rule
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
