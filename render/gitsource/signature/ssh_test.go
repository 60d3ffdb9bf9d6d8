// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/render/gitsource/signature"
)

func (w *workshop) write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSSHKeysThatAreTrusted(t *testing.T) {
	w := newWorkshop(t)
	for name, args := range map[string][]string{
		"ed25519": nil, "rsa": {"-t", "rsa", "-b", "2048"}, "ecdsa": {"-t", "ecdsa", "-b", "256"}, "ecdsa-521": {"-t", "ecdsa", "-b", "521"},
	} {
		t.Run(name, func(t *testing.T) {
			key := w.sshKey(t, args...)
			want := signature.Signer{Key: "SSH key " + w.fingerprint(t, key), Name: alice}
			trusts(t, parse(t, w.allowed(t, key, alice, "")), w.sshSigned(t, key), want)
		})
	}
}

func TestSSHKeysThatAreNot(t *testing.T) {
	w := newWorkshop(t)
	ours, theirs := w.sshKey(t), w.sshKey(t)
	keys := parse(t, w.allowed(t, ours, alice, ""))
	refuses(t, keys, w.sshSigned(t, theirs), "is signed with SSH key "+w.fingerprint(t, theirs)+", which is not among the trusted keys")
	refuses(t, signature.Keys{}, w.sshSigned(t, ours), "is not among the trusted keys")

	w.by(mallory, now.Add(-time.Hour))
	refuses(t, keys, w.sshSigned(t, ours), w.fingerprint(t, ours)+", which signs for "+alice+", not for "+mallory)
}

func TestPrincipals(t *testing.T) {
	w := newWorkshop(t)
	key := w.sshKey(t)
	commit := w.sshSigned(t, key) // by alice@example.com
	for principals, want := range map[string]bool{
		"alice@example.com":                   true,
		`"alice@example.com"`:                 true,
		"bob@example.com,alice@example.com":   true,
		"*":                                   true,
		"*@example.com":                       true,
		"al?ce@example.com":                   true,
		"*@example.com,!mallory@example.com":  true,
		"bob@example.com":                     false,
		"alice@example.co":                    false,
		"lice@example.com":                    false,
		"Alice@example.com":                   false,
		"*@example.org":                       false,
		"*@example.com,!alice@example.com":    false,
		"!alice@example.com,*":                false,
		"!bob@example.com":                    false,
		"[a]lice@example.com":                 false,
		`alice\@example.com`:                  false,
		"alice@example.com/x,al?[c]e@example": false,
	} {
		t.Run(principals, func(t *testing.T) {
			line := w.allowed(t, key, principals, "")
			_, err := parse(t, line).VerifyCommit(commit, now)
			if got := err == nil; got != want {
				t.Errorf("trusted: %t, want %t (%v)", got, want, err)
			}
			if got := w.sshKeygenTrusts(t, line, commit); got != want {
				t.Errorf("ssh-keygen trusts: %t, want %t", got, want)
			}
		})
	}
}

func TestOptionsOfSigners(t *testing.T) {
	w := newWorkshop(t)
	key := w.sshKey(t)
	commit := w.sshSigned(t, key) // at 2026-06-01T11:00:00Z
	for options, want := range map[string]string{
		`namespaces="git"`:                                   "",
		`namespaces="file,git"`:                              "",
		`namespaces="*"`:                                     "",
		`namespaces="file"`:                                  "may sign in file, not in git",
		`namespaces="git-hooks"`:                             "may sign in git-hooks, not in git",
		`valid-after="20260601"`:                             "",
		`valid-after="20260601110000Z"`:                      "",
		`valid-after="202606011101"`:                         "is valid from 2026-06-01T11:01:00Z on, and this was made at 2026-06-01T11:00:00Z",
		`valid-before="20260602Z"`:                           "",
		`valid-before="20260601110000"`:                      "",
		`valid-before="20260601"`:                            "was valid until 2026-06-01T00:00:00Z, and this was made at 2026-06-01T11:00:00Z",
		`valid-after="20260101",valid-before="20270101"`:     "",
		`namespaces="git",VALID-BEFORE="20200101"`:           "was valid until",
		`namespaces="file",valid-after="20200101"`:           "may sign in file",
		`valid-after="20260101",valid-before="202601010001"`: "was valid until",
	} {
		t.Run(options, func(t *testing.T) {
			line := w.allowed(t, key, alice, options)
			keys := parse(t, line)
			if got := w.sshKeygenTrusts(t, line, commit); got != (want == "") {
				t.Errorf("ssh-keygen trusts: %t", got)
			}
			if want != "" {
				refuses(t, keys, commit, want)
				return
			}
			if _, err := keys.VerifyCommit(commit, now); err != nil {
				t.Error(err)
			}
		})
	}
	// A second line for the same key may allow what the first does not.
	lines := w.allowed(t, key, mallory, "") + w.allowed(t, key, alice, `valid-after="20260101"`)
	if _, err := parse(t, lines).VerifyCommit(commit, now); err != nil {
		t.Error(err)
	}
}

// sshKeygenTrusts asks OpenSSH itself, as git verify-commit does, for the address
// and the time of the workshop's commits.
func (w *workshop) sshKeygenTrusts(t *testing.T, line string, commit []byte) bool {
	t.Helper()
	w.write(t, "allowed", []byte(line))
	w.write(t, "signature", bytes.ReplaceAll(bytes.TrimPrefix(signatureOf(commit), []byte("gpgsig ")), []byte("\n "), []byte("\n")))
	cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", alice, "-n", "git", "-s", "signature", "-Overify-time=20260601110000")
	cmd.Dir, cmd.Env = w.dir, []string{"PATH=" + os.Getenv("PATH"), "TZ=UTC"}
	cmd.Stdin = bytes.NewReader(bytes.Replace(commit, signatureOf(commit), nil, 1))
	out, err := cmd.CombinedOutput()
	if _, refused := errors.AsType[*exec.ExitError](err); err != nil && !refused {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	return err == nil
}

// What was signed for something else is no signature of a commit, even if it
// covers the same bytes.
func TestNamespaceOfASignature(t *testing.T) {
	w := newWorkshop(t)
	key := w.sshKey(t)
	keys := parse(t, w.allowed(t, key, "*", ""))
	commit := w.sshSigned(t, key)
	payload := bytes.Replace(commit, signatureOf(commit), nil, 1)
	for namespace, want := range map[string]string{"git": "", "file": `carries a signature for "file", not for "git"`} {
		w.write(t, "payload", payload)
		w.run(t, "ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key, "payload")
		armored := bytes.TrimSpace(w.run(t, "cat", "payload.sig"))
		w.run(t, "rm", "payload.sig")
		header := append([]byte("gpgsig "), bytes.ReplaceAll(armored, []byte("\n"), []byte("\n "))...)
		again := bytes.Replace(commit, signatureOf(commit), append(header, '\n'), 1)
		if want != "" {
			refuses(t, keys, again, want)
		} else if _, err := keys.VerifyCommit(again, now); err != nil {
			t.Error(err)
		}
	}
}

// The certificate names the key, and an authority vouches for it; nothing of
// that is trusted.
func TestCertificates(t *testing.T) {
	w := newWorkshop(t)
	authority, key := w.sshKey(t), w.sshKey(t)
	w.run(t, "ssh-keygen", "-q", "-s", authority, "-I", "id", "-n", alice, key+".pub")
	keys := parse(t, w.allowed(t, authority, alice, "")+w.allowed(t, key, alice, ""))
	commit := w.commit(t, "-c", "gpg.format=ssh", "-c", "user.signingKey="+strings.TrimSuffix(key, ".pub")+"-cert.pub", "commit", "-S")
	refuses(t, keys, commit, "which is not among the trusted keys")
}

func TestTags(t *testing.T) {
	w := newWorkshop(t)
	key, other := w.sshKey(t), w.sshKey(t)
	pgp := w.openPGP(t, alice, "ed25519", "never")
	keys := parse(t, w.allowed(t, key, alice, "")+w.public(t, pgp))
	w.commit(t, "commit")
	head := w.head(t)
	tag := func(name string, args ...string) []byte {
		w.git(t, append(args, "-m", "a release\n\nwith notes", name)...)
		return w.git(t, "cat-file", "tag", name)
	}
	good := tag("v1", "-c", "gpg.format=ssh", "-c", "user.signingKey="+key, "tag", "-s")
	v1 := signature.Tag{Name: "v1", Commit: head}
	byPGP := tag("v2", "-c", "gpg.program="+w.gpgProgram(t, now.Add(-time.Hour), ""), "-c", "user.signingKey="+pgp, "tag", "-s")
	for _, tt := range []struct {
		name   string
		object []byte
		want   signature.Tag
		err    string
	}{
		{"SSH", good, v1, ""},
		{"OpenPGP", byPGP, signature.Tag{Name: "v2", Commit: head}, ""},
		{"shown under another name", good, signature.Tag{Name: "v3", Commit: head}, `was made as tag "v1", and is shown as "v3"`},
		{"shown with another commit", good, signature.Tag{Name: "v1", Commit: strings.Repeat("0", 40)}, "points to " + head},
		{"unsigned", tag("v4", "tag", "-a"), signature.Tag{Name: "v4", Commit: head}, "is not signed"},
		{"other key", tag("v5", "-c", "gpg.format=ssh", "-c", "user.signingKey="+other, "tag", "-s"), signature.Tag{Name: "v5", Commit: head}, w.fingerprint(t, other)},
		{"message changed", bytes.Replace(good, []byte("notes"), []byte("goats"), 1), v1, "does not match its signature"},
		{"line after the signature", append(bytes.Clone(good), "more\n"...), v1, "something beside one signature"},
		{"signature before the end", append(bytes.Clone(good), byPGP[bytes.Index(byPGP, []byte("-----BEGIN")):]...), v1, "does not match its signature"},
		{"tag of a tree", bytes.Replace(good, []byte("type commit"), []byte("type tree"), 1), v1, "no tag of a commit"},
		{"no tagger", bytes.Replace(good, []byte("tagger "), []byte("dagger "), 1), v1, "does not say who made it"},
		{"twice the object", bytes.Replace(good, []byte("type "), []byte("object "+head+"\ntype "), 1), v1, "twice"},
		{"nothing", nil, v1, "no readable headers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := keys.VerifyTag(tt.object, tt.want, now)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("err = %v, want %q", err, tt.err)
			}
		})
	}
}
