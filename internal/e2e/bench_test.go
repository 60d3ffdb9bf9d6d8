// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"lamplighter.dev/reconcile/health"
)

const (
	benchNodes = 500
	// benchPatience bounds one rollout: many times what one takes on a machine that
	// has nothing else to do.
	benchPatience = 10 * time.Minute
)

// BenchmarkRollout compares a rollout over 500 nodes at 10 % with what the
// DaemonSet controller's own RollingUpdate takes for the same template on the
// same nodes, and with a loop that does nothing but evict. They are timed from the
// change of the DaemonSet to the status that says that all its pods are new and
// available. They run in turn; the metrics are medians over the rounds, the ratios
// those to RollingUpdate. With pods that are Ready after half a second it is the
// control plane that takes the time; with those that take five, as most do, the
// waiting for them. RollingUpdate breaks 10 % of the nodes before it stops; where as
// many may fail, visits let no node try a new version first either.
func BenchmarkRollout(b *testing.B) {
	for _, c := range []comparison{
		{name: "ready-after-500ms", image: "slow-500ms", rounds: 5},
		{name: "ready-after-500ms-no-trial", image: "slow-500ms", maxFailures: 49, rounds: 5},
		{name: "ready-after-5s", image: "slow-5s", rounds: 3},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				compareRollouts(b, c)
			}
		})
	}
}

type comparison struct {
	name, image string
	maxFailures int // of the policy
	rounds      int
}

func compareRollouts(b *testing.B, c comparison) {
	ours, theirs, bare := newWorld(b), newWorld(b), newWorld(b)
	agent := ours.spawn(b, "--listen", "127.0.0.1:0")
	place := ours.crowd(b, benchNodes, 0)
	commit := func(version string) {
		ours.commit(b, "version "+version, ours.fleet(map[string]string{
			"agent.yaml": daemonSet(version, c.image) + place,
			"rules.yaml": rules{maxUnavailable: "10%", maxFailures: c.maxFailures}.yaml(ours),
		}))
	}
	roll := func(version string) {
		theirs.apply(b, strings.Replace(daemonSet(version, c.image), "{type: OnDelete}", "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 10%}}", 1)+place)
	}
	var evicting errgroup.Group
	evict := func(version string) {
		d := bare.apply(b, daemonSet(version, c.image)+place)
		evicting.Go(func() error { return newEvictor(bare.Client, d, benchNodes/10).run(b.Context()) })
	}
	b.Cleanup(func() {
		if err := evicting.Wait(); err != nil {
			b.Error("bare evictions:", err)
		}
	})
	ours.rollout(b, func() { commit("1") })
	theirs.rollout(b, func() { roll("1") })
	bare.rollout(b, func() { bare.apply(b, daemonSet("1", c.image)+place) })
	var visits, rolling, evictions, ratios, bareRatios []float64
	for round := range c.rounds {
		version := strconv.Itoa(round + 2)
		a := ours.rollout(b, func() { commit(version) }).Seconds()
		z := theirs.rollout(b, func() { roll(version) }).Seconds()
		e := bare.rollout(b, func() { evict(version) }).Seconds()
		if err := evicting.Wait(); err != nil {
			b.Fatal(err)
		}
		b.Logf("round %d: visits %.1fs, RollingUpdate %.1fs, bare evictions %.1fs, ratios %.2f and %.2f", round+1, a, z, e, a/z, e/z)
		visits, rolling, evictions = append(visits, a), append(rolling, z), append(evictions, e)
		ratios, bareRatios = append(ratios, a/z), append(bareRatios, e/z)
	}
	b.ReportMetric(median(visits), "s")
	b.ReportMetric(median(rolling), "rolling-s")
	b.ReportMetric(median(evictions), "bare-s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(bareRatios), "bare-ratio")
	b.ReportMetric(agent.resident(b), "agent-MB")
}

// apply changes the DaemonSet agent.
func (w *world) apply(b testing.TB, manifest string) *appsv1.DaemonSet {
	b.Helper()
	d, err := w.Client.AppsV1().DaemonSets(w.namespace).Patch(b.Context(), "agent", types.ApplyPatchType, []byte(manifest), metav1.PatchOptions{FieldManager: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// rollout is how long a change of the DaemonSet agent takes from the moment it
// is seen in the API server.
func (w *world) rollout(b testing.TB, change func()) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), benchPatience)
	defer cancel()
	api := w.Client.AppsV1().DaemonSets(w.namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	before := int64(0)
	for _, d := range list.Items {
		before = d.Generation
	}
	// A busy API server ends a watch that does not keep up; this one begins again.
	watching, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, "agent").String()
			return api.Watch(ctx, o)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer watching.Stop()
	began := time.Now()
	change()
	var start time.Time
	var last appsv1.DaemonSetStatus
	for e := range watching.ResultChan() {
		d, ok := e.Object.(*appsv1.DaemonSet)
		if !ok || d.Generation == before {
			continue
		}
		if start.IsZero() {
			start = time.Now()
		}
		last = d.Status
		if s := last; s.ObservedGeneration == d.Generation && s.UpdatedNumberScheduled == benchNodes && s.NumberAvailable == benchNodes {
			return time.Since(start)
		}
	}
	b.Fatalf("%s/agent: not rolled out %s after the change, which was seen: %t; the nodes: %s; its status: %+v",
		w.namespace, time.Since(began).Round(time.Second), !start.IsZero(), w.readiness(b), last)
	return 0
}

// readiness says how many of the instance's nodes and pods are Ready.
func (w *world) readiness(b testing.TB) string {
	b.Helper()
	nodes, err := w.Client.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	pods, err := w.Client.CoreV1().Pods(w.namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	readyNodes, readyPods := 0, 0
	for i := range nodes.Items {
		if health.NodeOf(&nodes.Items[i]).Ready {
			readyNodes++
		}
	}
	for i := range pods.Items {
		if isReady(pods.Items[i]) {
			readyPods++
		}
	}
	return fmt.Sprintf("%d of %d Ready, with %d of %d pods Ready", readyNodes, len(nodes.Items), readyPods, len(pods.Items))
}

var residentMemory = regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)`)

// resident is the memory that an agent's process takes, in MB.
func (c *child) resident(b testing.TB) float64 {
	b.Helper()
	metrics, err := get(b, c.log, "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	found := residentMemory.FindStringSubmatch(metrics)
	if found == nil {
		b.Fatal("/metrics does not say how much memory the process takes")
	}
	bytes, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return bytes / 1e6
}
