// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
)

// Whoever reads the log, the metrics, what the agent keeps in the cluster or
// the list of processes learns no password, be it a good one or a wrong one. The
// cache is deleted meanwhile, which takes nothing away from what is in force.
func TestCredentialsAreShownNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const wrong, right = "CANARY-of-yesterday", "CANARY-of-today"
	w.git = testkit.StartGit(t, testkit.GitOptions{TLS: true, Username: "agent", Password: right})
	w.repo = w.git.Repo(t, "fleet")
	auth, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(auth, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("ca.crt", string(w.git.CA(t)))
	put("username", "agent")
	put("password", wrong)
	fleet := func(value string) map[string]string {
		return w.fleet(map[string]string{"a.yaml": configMap("a", value)})
	}
	first := w.commit(t, "version 1", fleet("1"))
	a := w.spawn(t, "--listen", "127.0.0.1:0", "--git-auth", auth, "--cache", cache)
	w.problem(t, "", "the server refuses the credentials")
	put("password", right) // as when the Secret was changed
	w.inForce(t, first)

	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	w.polled(t, 2)
	w.edit(t, "a", `{"data":{"key":"edited"}}`)
	w.says(t, "a", "1")
	w.inForce(t, w.commit(t, "version 2", fleet("2")))
	w.says(t, "a", "2")

	metrics, err := get(t, a.log, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", a.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := w.Client.CoreV1().ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(kept.Items) == 0 {
		t.Fatalf("%d ConfigMaps, %v", len(kept.Items), err)
	}
	for name, shown := range map[string]string{
		"log": a.log.String(), "metrics": metrics, "command line": string(process),
		"ConfigMaps": fmt.Sprintf("%+v", kept.Items), "record": fmt.Sprintf("%+v", w.stateNow(t)),
	} {
		for _, hidden := range []string{wrong, right} {
			if strings.Contains(shown, hidden) || strings.Contains(shown, base64.StdEncoding.EncodeToString([]byte("agent:"+hidden))) {
				t.Errorf("the %s shows a password:\n%s", name, shown)
			}
		}
	}
}
