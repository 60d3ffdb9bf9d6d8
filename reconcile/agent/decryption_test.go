// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"

	"lamplighter.dev/render/gitsource"
)

// samples are the files and keys that the package sops is tested with.
var samples = filepath.Join("..", "..", "render", "sops", "testdata")

// encryptedCommit is a commit of one Secret and, if it says so, a README.
func encryptedCommit(t *testing.T, hash, readme string, change func([]byte) []byte) gitsource.Commit {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join(samples, "secret.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return gitsource.Commit{Hash: hash, Branch: "main", Tree: fstest.MapFS{
		"kustomization.yaml": {Data: []byte("resources: [secret.yaml]\n")},
		"secret.yaml":        {Data: change(archive.Files[0].Data)},
		"README.md":          {Data: []byte(readme)},
	}}
}

func asItIs(data []byte) []byte { return data }

// decrypting is a poller of a remote, which decrypts with the keys in a folder.
func decrypting(t *testing.T, log *bytes.Buffer) (p *poller, remote *given, keys func(names ...string)) {
	t.Helper()
	dir := t.TempDir()
	remote = &given{}
	p = &poller{
		source: remote, decryptionKeys: dir, path: ".", log: slog.New(slog.NewTextHandler(log, nil)), metrics: NewMetrics(prometheus.NewRegistry()),
		now: func() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) },
	}
	return p, remote, func(names ...string) {
		t.Helper()
		text := ""
		for _, name := range names {
			key, err := os.ReadFile(filepath.Join(samples, "keys", name))
			if err != nil {
				t.Fatal(err)
			}
			text += string(key)
		}
		if err := os.WriteFile(filepath.Join(dir, "key.agekey"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEncryptedCommitIsInForceOnceItsKeyIsThere(t *testing.T) {
	var log bytes.Buffer
	p, remote, keys := decrypting(t, &log)
	remote.commit = encryptedCommit(t, "first", "", asItIs)

	polls(t, p, "", "--decryption-keys")
	keys("other.agekey")
	polls(t, p, "", "commit first: kustomization.yaml: line 1: resources[0]: secret.yaml: is encrypted for age age1")
	keys("other.agekey", "age.agekey")
	polls(t, p, "first", "")
	if got := p.last.fleet.Objects[0].Object["stringData"].(map[string]any)["password"]; got != "s3cr3t-lamp" {
		t.Errorf("password = %v", got)
	}

	remote.commit = encryptedCommit(t, "second", "", func(data []byte) []byte { return bytes.Replace(data, []byte("kube-system"), []byte("default"), 1) })
	polls(t, p, "first", "secret.yaml: was changed after it was encrypted")
	keys() // what is in force stays in force without its key
	polls(t, p, "first", "--decryption-keys")
	if strings.Contains(log.String(), "s3cr3t") || strings.Contains(log.String(), "AGE-SECRET-KEY-1") {
		t.Errorf("the log shows too much:\n%s", &log)
	}
}

// A commit that changes nothing that is rendered is in force with the objects
// of the last; other keys make it a build again.
func TestCommitOfAReadmeIsNotBuiltAgain(t *testing.T) {
	p, remote, keys := decrypting(t, new(bytes.Buffer))
	keys("age.agekey")
	remote.commit = encryptedCommit(t, "first", "one", asItIs)
	polls(t, p, "first", "")
	before := p.last.fleet.Objects[0]

	remote.commit = encryptedCommit(t, "second", "two", asItIs)
	polls(t, p, "second", "")
	if p.last.fleet.Objects[0] != before {
		t.Error("a README makes it build again")
	}

	keys("age.agekey", "other.agekey")
	remote.commit = encryptedCommit(t, "third", "three", asItIs)
	polls(t, p, "third", "")
	if p.last.fleet.Objects[0] == before {
		t.Error("other keys do not make it build again")
	}
	keys("other.agekey")
	remote.commit = encryptedCommit(t, "fourth", "four", asItIs)
	polls(t, p, "third", "there is no such key")
}

func TestAgentDoesNotStartWithKeysThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "age.agekey")
	if err := os.WriteFile(file, []byte("AGE-SECRET-KEY-1HUNTER2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Source: gitsource.Options{URL: "https://git.example.com/fleet"}, Cluster: &rest.Config{}, Namespace: "a", Instance: "a"}
	for path, want := range map[string]string{
		file:               "--decryption-keys " + file + ": line 1 is no age identity: it should begin with AGE-SECRET-KEY-",
		filepath.Dir(file): "--decryption-keys " + filepath.Dir(file) + ": age.agekey: line 1 is no age identity: it should begin with AGE-SECRET-KEY-",
		file + "x":         "--decryption-keys " + file + "x: no such file or directory",
	} {
		cfg.DecryptionKeys = path
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}
