// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

const benchObjects = 500

// rounds is how often both sides of a comparison run in turn.
const rounds = 9

// BenchmarkFirstApply compares a whole first pass over 500 ConfigMaps with a
// bare loop that sends the same applies, 32 in flight. The two run in turn; the
// metric is the median of the rounds' ratios, 1 meaning equally fast.
func BenchmarkFirstApply(b *testing.B) {
	for b.Loop() {
		var ours, bare, ratios, partial []float64
		for round := range rounds {
			a, z := firstPass(b, cluster.Options{}, round).Seconds(), bareLoop(b, round).Seconds()
			partial = append(partial, z/firstPass(b, cluster.Options{Partial: true}, round).Seconds())
			ours, bare, ratios = append(ours, benchObjects/a), append(bare, benchObjects/z), append(ratios, z/a)
		}
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(median(partial), "partial-ratio")
		b.ReportMetric(median(ours), "obj/s")
		b.ReportMetric(median(bare), "bare-obj/s")
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func (w *world) many(b testing.TB, prefix string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for i := range benchObjects {
		objects = append(objects, w.configMap(b, fmt.Sprintf("%s-%03d", prefix, i), "value"))
	}
	return objects
}

func firstPass(b *testing.B, opts cluster.Options, round int) time.Duration {
	w := newWorld(b, opts)
	objects := w.many(b, fmt.Sprintf("ours-%d", round))
	start := time.Now()
	plan := w.plan(b, objects...)
	outcomes := w.cluster.Apply(b.Context(), plan.Steps, nil)
	took := time.Since(start)
	for _, o := range outcomes {
		if o.Err != nil {
			b.Fatal(o.Err)
		}
	}
	return took
}

func bareLoop(b *testing.B, round int) time.Duration {
	w := newWorld(b, cluster.Options{})
	config := rest.CopyConfig(w.Config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	objects := w.many(b, fmt.Sprintf("bare-%d", round))
	for i, obj := range objects {
		if objects[i], err = inventory.Prepare(obj, w.instance); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	var work errgroup.Group
	work.SetLimit(32)
	for _, obj := range objects {
		work.Go(func() error {
			body, err := json.Marshal(obj.Object)
			if err != nil {
				return err
			}
			_, err = client.Resource(configMaps).Namespace(w.namespace).Patch(b.Context(), obj.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "bare"})
			return err
		})
	}
	if err := work.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// BenchmarkNothingChanged is what a pass over 500 objects costs when there is
// nothing to do; it sends no request.
func BenchmarkNothingChanged(b *testing.B) {
	w := newWorld(b, cluster.Options{})
	objects := w.many(b, "quiet")
	w.pass(b, objects...)
	testkit.Eventually(b, patience, func(context.Context) error {
		if seen := w.requests.during(func() { w.pass(b, objects...) }); len(seen) > 0 {
			return fmt.Errorf("%d requests", len(seen))
		}
		return nil
	})
	for b.Loop() {
		w.pass(b, objects...)
	}
}
