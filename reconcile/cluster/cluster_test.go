// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// patience bounds the wait for what takes a moment on a machine that is not busy.
const patience = time.Minute

func TestMain(m *testing.M) {
	os.Exit(testkit.Main(m, testkit.Options{Nodes: 3, PodReadyAfter: 100 * time.Millisecond}))
}

// world is one instance with its own namespace on the shared sandbox.
type world struct {
	*testkit.Cluster
	namespace string
	instance  inventory.Instance
	cluster   *cluster.Cluster
	requests  *requests
	owned     inventory.Set
	guarded   int
	allow     bool // prune whatever the guards say
	drift     inventory.DriftMode
	adoption  inventory.Adoption
}

// newWorld starts a cluster. Each test has an instance of its own, so that no
// watch sees the objects of another test.
func newWorld(t testing.TB, opts cluster.Options) *world {
	t.Helper()
	kit := testkit.Sandbox(t)
	w := &world{Cluster: kit, namespace: kit.Namespace(t), requests: &requests{}}
	w.instance = inventory.Instance{Namespace: w.namespace, Name: w.namespace}
	w.cluster = w.newCluster(t, opts)
	return w
}

// newCluster starts another process, so to say, of the same instance.
func (w *world) newCluster(t testing.TB, opts cluster.Options) *cluster.Cluster {
	t.Helper()
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{w.requests, next} })
	opts.Instance, opts.Now = w.instance, time.Now
	c, err := cluster.New(config, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); c.Wait() })
	if err := c.Start(ctx); err != nil {
		t.Fatalf("start: %v", err)
	}
	return c
}

// plan is the first half of a pass.
func (w *world) plan(t testing.TB, objects ...*unstructured.Unstructured) inventory.Plan {
	t.Helper()
	changes, err := w.cluster.Inspect(t.Context(), objects)
	if err != nil {
		t.Fatalf("inspect: %v", err)
	}
	var ids []inventory.ID
	for _, obj := range objects {
		ids = append(ids, inventory.IDOf(obj))
	}
	orphans, err := w.cluster.Orphans(t.Context(), w.owned.Without(ids...).IDs())
	if err != nil {
		t.Fatalf("orphans: %v", err)
	}
	plan, err := inventory.New(inventory.Input{
		Instance: w.instance, Owned: w.owned, Changes: changes, Orphans: orphans, AllowPrune: w.allow, Guarded: w.guarded, Drift: w.drift, Adoption: w.adoption,
	})
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return plan
}

// pass is a whole pass. It returns what was decided and what came of it.
func (w *world) pass(t testing.TB, objects ...*unstructured.Unstructured) (inventory.Plan, []inventory.Outcome) {
	t.Helper()
	plan := w.plan(t, objects...)
	outcomes := append(w.cluster.Apply(t.Context(), plan.Steps, nil), w.cluster.Prune(t.Context(), plan.Prunes, nil)...)
	w.owned, w.guarded = plan.Next.Settle(outcomes), plan.Guarded
	return plan, outcomes
}

// wantOutcomes compares outcomes with lines such as
// "Created ConfigMap/flags" or "Failed Secret/token: what the error holds".
// The test's namespace is left out.
func (w *world) wantOutcomes(t testing.TB, outcomes []inventory.Outcome, want ...string) {
	t.Helper()
	var got []string
	for _, o := range outcomes {
		line := fmt.Sprintf("%s %s", o.Result, strings.ReplaceAll(inventory.Format(o.ID), w.namespace+"/", ""))
		if o.Err != nil {
			line += ": " + strings.ReplaceAll(o.Err.Error(), w.namespace, "NS")
		}
		got = append(got, line)
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("outcome %d: got none, want %q", i, want[i])
		case i >= len(want):
			t.Errorf("outcome %d: got %q, want none", i, got[i])
		case !strings.HasPrefix(got[i], want[i]):
			t.Errorf("outcome %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

// objects reads YAML documents and puts them into the test's namespace.
func (w *world) objects(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, doc := range strings.Split(strings.ReplaceAll(text, "NS", w.namespace), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
			t.Fatalf("object: %v\n%s", err, doc)
		}
		switch obj.GetKind() {
		case "Namespace", "CustomResourceDefinition", "ClusterRole", "StorageClass":
		default:
			if obj.GetNamespace() == "" {
				obj.SetNamespace(w.namespace)
			}
		}
		out = append(out, obj)
	}
	return out
}

func (w *world) configMap(t testing.TB, name, value string) *unstructured.Unstructured {
	t.Helper()
	return w.objects(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: %q}", name, value))[0]
}

// requests remembers what was asked, and can refuse it.
type requests struct {
	mu   sync.Mutex
	seen []string       // "PATCH dry-run /api/v1/…"
	open map[string]int // watches, by resource
	// refuse, if set, answers in the API server's stead.
	refuse func(*http.Request) (*http.Response, error)
}

// intercept sets what answers in the API server's stead, nil for nothing.
func (r *requests) intercept(refuse func(*http.Request) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

// transport is a connection whose requests are remembered.
type transport struct {
	requests *requests
	next     http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	r := t.requests
	line := request.Method
	query := request.URL.Query()
	if query.Has("dryRun") {
		line += " dry-run"
	}
	isWatch := query.Has("watch")
	if isWatch {
		line += " watch"
	}
	r.mu.Lock()
	r.seen = append(r.seen, line+" "+request.URL.Path)
	refuse := r.refuse
	r.mu.Unlock()
	if refuse != nil {
		if response, err := refuse(request); response != nil || err != nil {
			return response, err
		}
	}
	response, err := t.next.RoundTrip(request)
	if err == nil && isWatch && response.StatusCode == http.StatusOK {
		response.Body = r.opened(path.Base(request.URL.Path), response.Body)
	}
	return response, err
}

// opened counts a watch until its body is closed.
func (r *requests) opened(resource string, body io.ReadCloser) io.ReadCloser {
	count := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open == nil {
			r.open = map[string]int{}
		}
		r.open[resource] += n
	}
	count(1)
	return &watchBody{ReadCloser: body, closed: sync.OnceFunc(func() { count(-1) })}
}

// watchBody says when it is closed.
type watchBody struct {
	io.ReadCloser
	closed func()
}

func (b *watchBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// openWatches counts the watches of a resource that are open.
func (r *requests) openWatches(resource string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[resource]
}

// during returns what was asked while f ran.
func (r *requests) during(f func()) []string {
	r.mu.Lock()
	start := len(r.seen)
	r.mu.Unlock()
	f()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.seen[start:]...)
}

// writes are the requests that change something, dry runs included.
func writes(seen []string) []string {
	var out []string
	for _, line := range seen {
		if !strings.HasPrefix(line, "GET ") {
			out = append(out, line)
		}
	}
	return out
}
