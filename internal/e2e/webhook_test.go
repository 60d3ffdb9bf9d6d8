// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

const webhookSecret = "0123456789abcdef0123456789abcdef"

// hooked makes an agent ask Git once an hour, and when a webhook says so.
func hooked(t *testing.T) func(*agent.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(webhookSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *agent.Config) {
		cfg.Interval, cfg.Webhook, cfg.WebhookTokenFile = time.Hour, "127.0.0.1:0", file
	}
}

var receiving = regexp.MustCompile(`msg="receiving webhooks" address=(\S+) path=(\S+)`)

// push tells an agent of a commit as GitHub does, and answers the status.
func push(t *testing.T, l *log, hash, secret string) int {
	t.Helper()
	address := receiving.FindStringSubmatch(l.String())
	if address == nil {
		t.Fatal("the log says no address")
	}
	body := fmt.Appendf(nil, `{"ref":"refs/heads/main","after":%q}`, hash)
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write(body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address[1]+address[2], bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestPushIsAppliedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(t, "version 1", w.fleet(map[string]string{"a.yaml": configMap("a", "1")}))
	leader := w.start(t, listening, hooked(t))
	w.says(t, "a", "1")
	readyz(t, leader.log, "leading")

	pushes := 0
	for term := -1; term != leader.log.terms(); pushes++ { // a new term asks for itself
		version := strconv.Itoa(2 + pushes)
		next := w.commit(t, "version "+version, map[string]string{"a.yaml": configMap("a", version)})
		term = leader.log.terms()
		asked := w.git.Requests().Refs
		if got := push(t, leader.log, next, "fedcba9876543210"); got != http.StatusForbidden {
			t.Errorf("wrong secret: status %d", got)
		}
		start := time.Now()
		if got := push(t, leader.log, next, webhookSecret); got != http.StatusAccepted {
			t.Errorf("status %d", got)
		}
		w.says(t, "a", version)
		w.inForce(t, next)
		t.Logf("applied %s after the webhook", time.Since(start))
		if more := w.git.Requests().Refs - asked; more != 1 && leader.log.terms() == term {
			t.Errorf("the remote was asked %d times, want once for the push", more)
		}
	}
	metrics, err := get(t, leader.log, "/metrics")
	for _, want := range []string{
		fmt.Sprintf(`lamplighter_webhook_requests_total{result="accepted"} %d`, pushes),
		fmt.Sprintf(`lamplighter_webhook_requests_total{result="wrong_signature"} %d`, pushes),
	} {
		if err != nil || !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics lacks %s (%v)", want, err)
		}
	}
	if strings.Contains(leader.log.String(), webhookSecret) {
		t.Error("the log holds the secret")
	}
}

// A Service gives the webhook to any replica.
func TestPushToTheStandbyReachesTheLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(t, "version 1", w.fleet(map[string]string{"a.yaml": configMap("a", "1")}))
	leader := w.start(t, listening, hooked(t), func(cfg *agent.Config) { cfg.Identity = "first" })
	w.says(t, "a", "1")
	readyz(t, leader.log, "leading")
	standby := w.start(t, listening, hooked(t), func(cfg *agent.Config) { cfg.Identity = "second" })
	readyz(t, standby.log, "waiting for the lease")

	for _, version := range []string{"2", "3"} {
		hash := w.commit(t, "version "+version, map[string]string{"a.yaml": configMap("a", version)})
		if got := push(t, standby.log, hash, webhookSecret); got != http.StatusAccepted {
			t.Errorf("status %d", got)
		}
		w.says(t, "a", version)
		w.inForce(t, hash)
	}
}

// The repository was empty an hour ago, says an agent that is not told.
func TestPushBeforeAnythingWasApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leader := w.start(t, listening, hooked(t))
	readyz(t, leader.log, "leading")
	testkit.Eventually(t, patience, func(context.Context) error {
		if len(leader.log.lines("the repository is empty")) == 0 {
			return fmt.Errorf("the agent has not looked yet")
		}
		return nil
	})
	hash := w.commit(t, "version 1", w.fleet(map[string]string{"a.yaml": configMap("a", "1")}))
	if got := push(t, leader.log, hash, webhookSecret); got != http.StatusAccepted {
		t.Errorf("status %d", got)
	}
	w.says(t, "a", "1")
}
