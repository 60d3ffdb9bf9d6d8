// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

// The way of a change where people work: a protected branch, a pull request, and a
// webhook of the forge that tells the agent, which asks once an hour by itself.
func TestPullRequestOnAForgeIsAppliedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forge := testkit.StartForge(t)
	keeper, reader := forge.User(t, "platform"), forge.User(t, "lamplighter")
	repo := forge.Repo(t, keeper, "fleet")
	repo.Invite(t, reader)
	first := w.commit(t, "version 1", w.fleet(map[string]string{"a.yaml": configMap("a", "1")}))
	repo.Push(t, w.repo, "main")
	repo.Protect(t, "main")

	auth := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(auth, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token := forge.Token(t, reader, "read:repository")
	put("username", reader.Name)
	put("password", token)
	put("ca.crt", forge.CA())
	leader := w.start(t, listening, hooked(t), func(cfg *agent.Config) { cfg.Source.URL, cfg.Source.Auth = repo.URL(), auth })
	w.inForce(t, first)
	w.says(t, "a", "1")
	readyz(t, leader.log, "leading")

	receiver := receiving.FindStringSubmatch(leader.log.String())
	if receiver == nil {
		t.Fatal("the log says no address")
	}
	right := repo.Hook(t, "http://"+receiver[1]+receiver[2], webhookSecret, "push", "create")
	wrong := repo.Hook(t, "http://"+receiver[1]+receiver[2], "fedcba9876543210", "push")
	accepted := func(event string) testkit.Delivery {
		return testkit.Delivery{Event: event, Status: http.StatusAccepted, Body: "looking at the repository"}
	}
	repo.TestDelivery(t, right)
	delivered(t, repo, right, accepted("push"))
	w.repo.Git(t, "branch", "change", first)
	w.repo.Commit(t, "change", "version 2", map[string]string{"a.yaml": configMap("a", "2")})
	repo.Push(t, w.repo, "change")
	start := time.Now()
	repo.Merge(t, repo.PullRequest(t, "change", "main"))
	merged := repo.Head(t, "main")
	w.inForce(t, merged)
	w.says(t, "a", "2")
	t.Logf("applied %s after the merge", time.Since(start))

	delivered(t, repo, wrong, testkit.Delivery{Event: "push", Status: http.StatusForbidden, Body: "the signature is wrong: the secret is not the agent's"})
	w.repo.Tag(t, "v1", first)
	repo.Push(t, w.repo, "v1")
	delivered(t, repo, right, accepted("create"))

	put("password", "0123456789012345678901234567890123456789") // as when the token was withdrawn
	w.repo.Git(t, "branch", "other", first)
	repo.Push(t, w.repo, "other")
	w.problem(t, merged, repo.URL()+": the server refuses the credentials")
	if text := leader.log.String(); strings.Contains(text, token) || strings.Contains(text, webhookSecret) {
		t.Error("the log holds a secret")
	}
}

// delivered waits until the forge shows what became of a webhook.
func delivered(t *testing.T, repo *testkit.ForgeRepo, hook int, want testkit.Delivery) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		if shown := repo.Deliveries(t, hook); !slices.Contains(shown, want) {
			return fmt.Errorf("webhook %d: the forge shows %+v, not %+v", hook, shown, want)
		}
		return nil
	})
}
