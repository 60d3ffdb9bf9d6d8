// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lamplighter.dev/reconcile/agent"
)

// signingKey makes an SSH key and answers its file, and its line of
// allowed_signers.
func signingKey(t *testing.T) (file, line string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, "lamp@example.com " + string(public)
}

// signHead replaces the newest commit by the same one, signed.
func (w *world) signHead(t *testing.T, key string) string {
	t.Helper()
	hash := w.repo.Git(t, "-c", "user.name=Lamp Lighter", "-c", "user.email=lamp@example.com", "-c", "gpg.format=ssh", "-c", "user.signingKey="+key,
		"commit-tree", "-S", "-m", "signed", "main^{tree}")
	return w.repo.ForcePush(t, "main", hash)
}

func TestOnlySignedCommitsAreApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ours, line := signingKey(t)
	theirs, _ := signingKey(t)
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	fleet := func(value string) map[string]string {
		return w.fleet(map[string]string{"a.yaml": configMap("a", value)})
	}
	w.commit(t, "version 1", fleet("1"))
	good := w.signHead(t, ours)
	w.start(t, func(cfg *agent.Config) { cfg.VerifyKeysFile = keys })
	w.inForce(t, good)
	w.says(t, "a", "1")

	unsigned := w.commit(t, "version 2", fleet("2"))
	w.problem(t, good, fmt.Sprintf("commit %.7s: is not signed", unsigned))
	stranger := w.signHead(t, theirs)
	w.problem(t, good, fmt.Sprintf("commit %.7s: is signed with SSH key SHA256:", stranger))
	out, err := w.command(t, "status").Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "NOT IN FORCE  commit "+stranger[:7]+": is signed with") {
		t.Errorf("status: %v\n%s", err, out)
	}
	w.says(t, "a", "1")

	signed := w.signHead(t, ours)
	w.inForce(t, signed)
	w.says(t, "a", "2")
}
