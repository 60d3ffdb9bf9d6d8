// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/rest"

	"lamplighter.dev/render/gitsource"
)

// keyOf is the signing key of a person, the same in every run.
func keyOf(t *testing.T, person byte) ssh.Signer {
	t.Helper()
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{person}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, key ssh.Signer, payload string) string {
	t.Helper()
	sig, err := sshsig.Sign(strings.NewReader(payload), key, sshsig.HashSHA512, "git")
	if err != nil {
		t.Fatal(err)
	}
	return string(sshsig.Armor(sig))
}

const by = "A <a@example.com> 1780311600 +0000\n"

// signedCommit is a commit of one ConfigMap. Without a key it is not signed.
func signedCommit(t *testing.T, hash string, key ssh.Signer) gitsource.Commit {
	t.Helper()
	payload := "tree " + strings.Repeat("0", 40) + "\nauthor " + by + "committer " + by
	object := payload + "\n" + hash + "\n"
	if key != nil {
		armored := strings.ReplaceAll(strings.TrimSpace(sign(t, key, object)), "\n", "\n ")
		object = payload + "gpgsig " + armored + "\n\n" + hash + "\n"
	}
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + hash + ", namespace: default}\n"
	return gitsource.Commit{Hash: hash, Branch: "main", Object: object, Tree: fstest.MapFS{"a.yaml": {Data: []byte(manifest)}}}
}

// given is a remote that has one commit.
type given struct{ commit gitsource.Commit }

func (g *given) Fetch(context.Context) (gitsource.Commit, error) { return g.commit, nil }

// doubtful is a poller of a remote, which trusts the keys in a file.
func doubtful(t *testing.T, log *bytes.Buffer) (p *poller, remote *given, keys func(...ssh.Signer)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	remote = &given{}
	p = &poller{
		source: remote, trust: trust{keysFile: file}, path: ".", log: slog.New(slog.NewTextHandler(log, nil)), metrics: NewMetrics(prometheus.NewRegistry()),
		now: func() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) },
	}
	return p, remote, func(trusted ...ssh.Signer) {
		t.Helper()
		text := "# who may sign\n"
		for _, k := range trusted {
			text += "*@example.com " + string(ssh.MarshalAuthorizedKey(k.PublicKey()))
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// polls wants a commit in force, and a word of the problem with the newest one.
func polls(t *testing.T, p *poller, inForce, problem string) {
	t.Helper()
	u, _ := p.poll(t.Context())
	got := ""
	if u.fleet != nil {
		got = u.fleet.Commit.Hash
	}
	if got != inForce {
		t.Errorf("commit %q is in force, want %q", got, inForce)
	}
	if problem == "" && u.err != nil || problem != "" && (u.err == nil || !strings.Contains(u.err.Error(), problem)) {
		t.Errorf("err = %v, want %q", u.err, problem)
	}
}

func TestCommitIsInForceOnlyIfSigned(t *testing.T) {
	var log bytes.Buffer
	p, remote, keys := doubtful(t, &log)
	alice, mallory := keyOf(t, 1), keyOf(t, 2)
	keys(alice)

	remote.commit = signedCommit(t, "unsigned0", nil)
	polls(t, p, "", "commit unsigne: is not signed")
	remote.commit = signedCommit(t, "first", alice)
	polls(t, p, "first", "")
	if want := "signer=\"SSH key " + ssh.FingerprintSHA256(alice.PublicKey()) + " (*@example.com)\""; !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say who signed:\n%s", &log)
	}

	remote.commit = signedCommit(t, "second", mallory)
	unknown := "commit second: is signed with SSH key " + ssh.FingerprintSHA256(mallory.PublicKey()) + ", which is not among the trusted keys"
	polls(t, p, "first", unknown)
	polls(t, p, "first", unknown)
	if n := strings.Count(log.String(), "not among"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	keys(alice, mallory) // trusted now, without a new commit
	polls(t, p, "second", "")

	keys(mallory) // what is in force stays
	polls(t, p, "second", "")
	remote.commit = signedCommit(t, "third", alice)
	polls(t, p, "second", "not among the trusted keys")
}

func TestKeysThatCannotBeReadTrustNobody(t *testing.T) {
	p, remote, keys := doubtful(t, &bytes.Buffer{})
	remote.commit = signedCommit(t, "first", keyOf(t, 1))
	polls(t, p, "", "commit first: --verify-keys: open ")
	keys()
	polls(t, p, "", "holds no key")
	if err := os.WriteFile(p.trust.keysFile, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	polls(t, p, "", p.trust.keysFile+": line 1: is neither")
	keys(keyOf(t, 1))
	polls(t, p, "first", "")
}

func TestTagIsTheOneThatIsSigned(t *testing.T) {
	p, remote, keys := doubtful(t, &bytes.Buffer{})
	p.trust.object = VerifyTag
	alice := keyOf(t, 1)
	keys(alice)

	remote.commit = signedCommit(t, "first", alice)
	polls(t, p, "", "main is no annotated tag, and --verify tag wants a signed one")

	remote.commit = signedCommit(t, "first", nil)
	tag := "object first\ntype commit\ntag v1\ntagger " + by + "\nrelease\n"
	remote.commit.Branch, remote.commit.TagObject = "v1", tag
	polls(t, p, "", "commit first: tag v1: is not signed")
	remote.commit.TagObject = tag + sign(t, alice, tag)
	remote.commit.Branch = "v2"
	polls(t, p, "", `tag v2: was made as tag "v1"`)
	remote.commit.Branch = "refs/tags/v1"
	polls(t, p, "first", "")
}

func TestVerifyOptions(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file   string
		object Verify
		want   string
	}{
		"nothing":      {"", "", ""},
		"commit":       {"", VerifyCommit, ""},
		"tag, no keys": {"", VerifyTag, "--verify tag needs --verify-keys"},
		"other":        {empty, "branch", `--verify "branch": use commit or tag`},
		"gone":         {filepath.Join(dir, "gone"), "", "--verify-keys: open "},
		"empty":        {empty, VerifyTag, "--verify-keys: " + empty + ": holds no key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{
				Source: gitsource.Options{URL: "file:///fleet"}, Cluster: &rest.Config{}, Namespace: "ns", Instance: "lamp",
				VerifyKeysFile: tt.file, Verify: tt.object,
			})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}
