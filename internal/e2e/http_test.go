// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

func TestAgentAnswersHTTPAndStopsOnSIGTERM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(t, "version 1", w.fleet(map[string]string{"agent.yaml": daemonSet("1", "v1"), "rules.yaml": rules{}.yaml(w)}))
	c := w.spawn(t, "--listen", "127.0.0.1:0")
	w.settled(t, "1")
	readyz(t, c.log, "leading")
	if body, err := get(t, c.log, "/healthz"); err != nil || body != "ok" {
		t.Errorf("/healthz: got %q (%v)", body, err)
	}
	for _, want := range []string{
		"lamplighter_leading 1",
		"lamplighter_commit_accepted 1",
		fmt.Sprintf(`lamplighter_decisions{action="keep",reason="UpToDate"} %d`, nodes),
	} {
		testkit.Eventually(t, patience, func(context.Context) error {
			metrics, err := get(t, c.log, "/metrics")
			if err == nil && !strings.Contains(metrics, want+"\n") {
				err = fmt.Errorf("/metrics lacks %q", want)
			}
			return err
		})
	}

	if code := c.signal(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	lease, err := w.Client.CoordinationV1().Leases(w.namespace).Get(t.Context(), w.instance.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		t.Errorf("the Lease is still held by %s", *h)
	}
	if lines := c.log.lines("agent stopped"); len(lines) != 1 {
		t.Errorf("the log does not say that the agent stopped: %q", lines)
	}
}

// listening makes an agent serve HTTP.
func listening(cfg *agent.Config) { cfg.Listen = "127.0.0.1:0" }

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// get asks the agent that writes a log.
func get(t testing.TB, l *log, path string) (string, error) {
	t.Helper()
	address := serving.FindStringSubmatch(l.String())
	if address == nil {
		return "", fmt.Errorf("the log says no address")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address[1]+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return strings.TrimSpace(string(body)), err
}

// readyz waits until an agent says that it is ready, and in what phase.
func readyz(t *testing.T, l *log, want string) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		got, err := get(t, l, "/readyz")
		if err == nil && got != want {
			err = fmt.Errorf("/readyz: got %q, want %q", got, want)
		}
		return err
	})
}
