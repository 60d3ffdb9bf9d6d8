// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

// userKey is a private key as it is in a Secret, and its public half.
func userKey(t *testing.T) (private string, public ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), signer.PublicKey()
}

func TestRepositoryOverSSHThatGoesForwardOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, public := userKey(t)
	stranger, _ := userKey(t)
	server := w.git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}})
	auth := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(auth, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("known_hosts", server.KnownHosts())
	put("identity", stranger)
	configure := func(cfg *agent.Config) {
		cfg.Source.URL, cfg.Source.Auth, cfg.Source.Cache = server.URL(w.repo), auth, t.TempDir()
		cfg.ForwardOnly = true
	}
	fleet := func(value string) map[string]string {
		return w.fleet(map[string]string{"a.yaml": configMap("a", value)})
	}
	first := w.commit(t, "version 1", fleet("1"))
	a := w.start(t, configure)
	w.problem(t, "", server.URL(w.repo)+": the server refuses the key")
	put("identity", key) // as when the Secret was changed
	w.inForce(t, first)
	w.says(t, "a", "1")
	if strings.Contains(a.log.String(), "PRIVATE KEY") {
		t.Error("the log shows a key")
	}

	second := w.commit(t, "version 2", fleet("2"))
	w.inForce(t, second)
	w.repo.ForcePush(t, "main", first)
	refused := "commit " + first[:7] + ": was not made on top of " + second[:7]
	w.problem(t, second, refused)
	a.stop(t)
	w.start(t, configure)
	w.problem(t, second, refused)
	w.says(t, "a", "2")

	w.repo.ForcePush(t, "main", second)
	w.inForce(t, w.commit(t, "version 3", fleet("3")))
	w.says(t, "a", "3")
}
