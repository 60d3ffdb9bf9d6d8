// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/render/gitsource/signature"
)

// now is when the tests verify. The commits were made an hour before.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const (
	alice   = "alice@example.com"
	mallory = "mallory@example.com"
)

// workshop is a repository and what makes signatures: git, GnuPG and OpenSSH
// themselves.
type workshop struct {
	dir, home string
	env       []string // of the next commit or tag
}

func newWorkshop(t testing.TB) *workshop {
	t.Helper()
	// GnuPG's agent listens on a socket in its home, whose path must be short.
	home, err := os.MkdirTemp("", "lamp")
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{dir: t.TempDir(), home: home}
	t.Cleanup(func() {
		w.run(t, "gpgconf", "--kill", "all")
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	w.by(alice, now.Add(-time.Hour))
	w.git(t, "init", "--quiet", "--initial-branch=main")
	return w
}

// by says who makes the next commits, and when.
func (w *workshop) by(email string, when time.Time) {
	date := when.Format(time.RFC3339)
	w.env = []string{
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=" + email, "GIT_COMMITTER_DATE=" + date,
	}
}

func (w *workshop) run(t testing.TB, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = w.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "GNUPGHOME=" + w.home, "TZ=UTC",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	}, w.env...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &complaints)
	}
	return out
}

func (w *workshop) git(t testing.TB, args ...string) []byte {
	t.Helper()
	return w.run(t, "git", args...)
}

// gpg runs GnuPG with its clock at an instant.
func (w *workshop) gpg(t testing.TB, at time.Time, args ...string) []byte {
	t.Helper()
	clock := "--faked-system-time=" + at.Format("20060102T150405")
	return w.run(t, "gpg", append([]string{"--batch", "--quiet", "--passphrase=", "--pinentry-mode=loopback", clock}, args...)...)
}

// openPGP makes a key and answers its fingerprint.
func (w *workshop) openPGP(t testing.TB, email, algorithm, expires string) string {
	t.Helper()
	made := now.Add(-30 * 24 * time.Hour)
	w.gpg(t, made, "--quick-generate-key", "A <"+email+">", algorithm, "sign", expires)
	for line := range strings.Lines(string(w.gpg(t, made, "--with-colons", "--list-keys", email))) {
		if fields := strings.Split(line, ":"); fields[0] == "fpr" {
			return fields[9]
		}
	}
	t.Fatalf("no key of %s", email)
	return ""
}

// public is the armored public key.
func (w *workshop) public(t testing.TB, fingerprint string) string {
	t.Helper()
	return string(w.gpg(t, now, "--armor", "--export", fingerprint))
}

// gpgProgram makes git sign with the workshop's clock, and with options.
func (w *workshop) gpgProgram(t testing.TB, at time.Time, options string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gpg")
	script := "#!/bin/sh\nexec gpg --batch --faked-system-time=" + at.Format("20060102T150405") + " " + options + ` "$@"` + "\n"
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// signed commits with an OpenPGP key, at an instant.
func (w *workshop) signed(t testing.TB, fingerprint string, at time.Time) []byte {
	t.Helper()
	return w.commit(t, "-c", "gpg.program="+w.gpgProgram(t, at, ""), "-c", "user.signingKey="+fingerprint, "commit", "-S")
}

// sshKey makes a key and answers the file of its private half.
func (w *workshop) sshKey(t testing.TB, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if len(args) == 0 {
		args = []string{"-t", "ed25519"}
	}
	w.run(t, "ssh-keygen", append([]string{"-q", "-N", "", "-C", "a comment", "-f", file}, args...)...)
	return file
}

// allowed is a line of allowed_signers.
func (w *workshop) allowed(t testing.TB, key, principals, options string) string {
	t.Helper()
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(principals+" "+options+" "+string(public)), " ") + "\n"
}

func (w *workshop) fingerprint(t testing.TB, key string) string {
	t.Helper()
	return strings.Fields(string(w.run(t, "ssh-keygen", "-l", "-f", key+".pub")))[1]
}

// sshSigned commits with an SSH key.
func (w *workshop) sshSigned(t testing.TB, key string) []byte {
	t.Helper()
	return w.commit(t, "-c", "gpg.format=ssh", "-c", "user.signingKey="+key, "commit", "-S")
}

// commit runs git commit and answers the object.
func (w *workshop) commit(t testing.TB, args ...string) []byte {
	t.Helper()
	w.git(t, append(args, "--quiet", "--allow-empty", "-m", "Light the lamps\n\nAll of them – 灯.\n")...)
	return w.git(t, "cat-file", "commit", "HEAD")
}

func (w *workshop) head(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(string(w.git(t, "rev-parse", "HEAD")))
}

func parse(t testing.TB, file string) signature.Keys {
	t.Helper()
	k, err := signature.ParseKeys([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// refuses wants one line that says why.
func refuses(t testing.TB, k signature.Keys, commit []byte, want string) {
	t.Helper()
	signer, err := k.VerifyCommit(commit, now)
	switch {
	case err == nil:
		t.Errorf("trusted %s, want %q", signer, want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("err = %v, want %q", err, want)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("not one line: %q", err)
	case signer != signature.Signer{}:
		t.Errorf("a signer with an error: %s", signer)
	}
}

func trusts(t testing.TB, k signature.Keys, commit []byte, want signature.Signer) {
	t.Helper()
	if got, err := k.VerifyCommit(commit, now); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}
