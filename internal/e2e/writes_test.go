// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

// smallFleet is how many nodes are visited where that takes many agents.
const smallFleet = 4

// everyWrite is what an agent writes in a rollout, Events aside, which it does not
// wait for.
var everyWrite = []*regexp.Regexp{
	regexp.MustCompile(`^PATCH .*/daemonsets/agent$`),
	regexp.MustCompile(`^PATCH .*/daemonsets/logger$`),
	regexp.MustCompile(`^PUT .*/configmaps/.*-ledger$`),
	regexp.MustCompile(`^POST .*/pods/agent-.*/eviction$`),
	regexp.MustCompile(`^POST .*/pods/logger-.*/eviction$`),
	regexp.MustCompile(`^PATCH .*/nodes/`), // cordons, and takes the cordon off
}

// Every write of a rollout is the last of some agent: the API server does it, and
// the agent dies before it hears of that. The next one goes on from there. It is the
// second of each agent, since with its first it begins its term. In the second and
// third run agents get a little further, so that what they have in
// memory is lost too. Nodes are drained, so that a cordon is among what must not
// be left behind.
func TestAgentsDieAfterEveryWrite(t *testing.T) {
	t.Parallel()
	for _, writes := range []int{2, 3, 4} {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			place := w.crowd(t, smallFleet, 1)
			early := span{second(-time.Minute), second(time.Hour)}
			files := func(version string, policy rules) map[string]string {
				return w.fleet(map[string]string{
					"agent.yaml":  daemonSet(version, "slow-500ms") + place,
					"logger.yaml": logger(version, "slow-500ms") + place,
					"rules.yaml":  policy.yaml(w),
				})
			}
			policy := rules{
				windows: "early, late", maxUnavailable: "2", logger: true,
				fields: `  waves:
  - {name: canary, nodeSelector: {matchLabels: {canary: "true"}}, maxUnavailable: 1, soak: 1s}
  - {name: rest}
` + w.drains("5m"),
				more: early.window("early") + far().window("late"),
			}
			w.commit(t, "version 1", files("1", policy))
			first := w.start(t)
			w.runsOn(t, smallFleet, "1", "agent", "logger")
			testkit.Eventually(t, patience, w.idle)
			first.stop(t)

			early.to = second(8 * time.Second)
			late := span{early.to.Add(3 * time.Second), second(time.Hour)}
			policy.more = early.window("early") + late.window("late")
			w.commit(t, "version 2", files("2", policy))
			last := w.dieAfter(t, writes)
			if t.Logf("agents that died: %d", len(last)); len(last) < smallFleet {
				t.Errorf("only %d agents died: %v", len(last), last)
			}
			for _, want := range everyWrite {
				if writes == 2 && !slices.ContainsFunc(last, want.MatchString) {
					t.Errorf("no agent died after %s, only after %q", want, last)
				}
			}

			w.runsOn(t, smallFleet, "2", "agent", "logger")
			w.onceOn(t, smallFleet, "agent", "logger")
			w.withinBudget(t, 2, "agent", "logger")
			if wrong := outside(w.orders(t), early, late); len(wrong) > 0 {
				t.Errorf("pods were deleted outside %s and %s: %v", early, late, wrong)
			}
			if got := visited(w.stateNow(t).Ledger); len(got) != smallFleet || len(slices.Compact(got)) != smallFleet {
				t.Errorf("finished visits: got %v, want one for each of %d nodes", got, smallFleet)
			}
			for _, name := range []string{"agent", "logger"} {
				if d := w.daemonSetNow(t, name); d.Generation != 2 {
					t.Errorf("generation of %s: got %d, want 2: one template after another", name, d.Generation)
				}
			}
		})
	}
}

// dieAfter starts one agent after another, each of which dies after so many
// writes, until one finds nothing to do any more. It answers with the last
// write of each.
func (w *world) dieAfter(t *testing.T, writes int) []string {
	t.Helper()
	var last []string
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for {
		m := newMortal(writes)
		a := w.start(t, m.be)
		done := time.NewTicker(100 * time.Millisecond)
		for alive := true; alive; {
			select {
			case <-m.died:
				alive = false
			case <-ctx.Done():
				t.Fatalf("%d agents died and the rollout is not done: %v: %v", len(last), w.rolledOut(t.Context()), last)
			case <-done.C:
				if alive = w.rolledOut(ctx) != nil; !alive {
					done.Stop()
					a.stop(t)
					return last
				}
			}
		}
		done.Stop()
		a.stop(t)
		last = append(last, m.lastWrite())
	}
}

// rolledOut says what is missing until every node is visited and given back.
func (w *world) rolledOut(ctx context.Context) error {
	state, err := w.state(ctx)
	if err != nil {
		return err
	}
	if n := len(state.Ledger.Finished); n < smallFleet {
		return fmt.Errorf("%d visits are finished", n)
	}
	crowd, err := w.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "crowd=" + w.instance.Name})
	if err != nil {
		return err
	}
	for _, n := range crowd.Items {
		if n.Spec.Unschedulable {
			return fmt.Errorf("%s is cordoned", n.Name)
		}
	}
	return w.idle(ctx)
}

// mortal is an agent that dies after so many writes. The last is done, and the
// agent does not learn what came of it. Nothing that it sends later arrives.
type mortal struct {
	died chan struct{}

	mu     sync.Mutex
	left   int
	unsent bool // the last is not done either
	wrote  []string
}

func newMortal(writes int) *mortal { return &mortal{left: writes, died: make(chan struct{})} }

var errDead = errors.New("this agent is dead")

func (m *mortal) be(cfg *agent.Config) {
	cfg.Cluster = rest.CopyConfig(cfg.Cluster)
	cfg.Cluster.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortalTrip{m, next} })
}

// written are the writes, the last included.
func (m *mortal) written() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.wrote)
}

func (m *mortal) lastWrite() string {
	all := m.written()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// send counts a request. It says whether the request arrives, and whether it is the last.
func (m *mortal) send(req *http.Request) (arrives, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return false, false
	}
	if !isWrite(req) {
		return true, false
	}
	m.left--
	m.wrote = append(m.wrote, req.Method+" "+req.URL.Path)
	return m.left > 0 || !m.unsent, m.left == 0
}

// isWrite says that a request changes something, the Lease aside.
func isWrite(req *http.Request) bool {
	return req.Method != http.MethodGet && !strings.Contains(req.URL.Path, "/leases") && !req.URL.Query().Has("dryRun") && !triesEviction(req)
}

// triesEviction says that a request asks whether a pod would be evicted. The
// eviction itself says so, and not the address.
func triesEviction(req *http.Request) bool {
	if !strings.HasSuffix(req.URL.Path, "/eviction") || req.GetBody == nil {
		return false
	}
	reader, err := req.GetBody()
	if err != nil {
		return false
	}
	defer reader.Close()
	body, err := io.ReadAll(reader)
	if err != nil {
		return false
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	eviction, ok := decoded.(*policyv1.Eviction)
	return err == nil && ok && eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
}

type mortalTrip struct {
	*mortal
	next http.RoundTripper
}

func (m mortalTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	arrives, last := m.send(req)
	if last {
		defer close(m.died)
	}
	if !arrives {
		return nil, errDead
	}
	resp, err := m.next.RoundTrip(req)
	if !last {
		return resp, err
	}
	if err == nil {
		_ = resp.Body.Close() // the dead do not read
	}
	return nil, errDead
}
