// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/cluster"
)

// life says how a process that makes passes goes about it.
type life struct {
	mortal   *mortal // nil for one that does not die
	partial  bool
	inFlight int
}

// passing is a process that makes passes and has nothing else of an agent.
type passing struct {
	ctx        context.Context
	end        func()
	reconciler *reconcile.Reconciler
}

// live begins a process, which ends with the test if not before.
func (w *transition) live(t *testing.T, l life) passing {
	t.Helper()
	return live(t, w.Cluster, w.instance, l)
}

func live(t testing.TB, kit *testkit.Cluster, instance inventory.Instance, l life) passing {
	t.Helper()
	config := rest.CopyConfig(kit.Config)
	ctx, cancel := context.WithCancelCause(t.Context())
	if l.mortal != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortalTrip{l.mortal, next} })
		go func() {
			select {
			case <-l.mortal.died:
				cancel(errDead)
			case <-ctx.Done():
			}
		}()
	}
	c, err := cluster.New(config, cluster.Options{Instance: instance, Now: time.Now, InFlight: l.inFlight, Partial: l.partial})
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	end := func() { cancel(nil); c.Wait() }
	t.Cleanup(end)
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return passing{ctx, end, reconcile.NewReconciler(reconcile.Options{
		Instance: instance, Cluster: c, Store: agent.NewStore(client, instance), Now: time.Now, Partial: l.partial,
	})}
}

func (p passing) pass(objects []*unstructured.Unstructured) (reconcile.Report, error) {
	commit := reconcile.Commit{Hash: fmt.Sprintf("%040d", len(objects))}
	return p.reconciler.Pass(p.ctx, reconcile.Source{Fleet: &reconcile.Fleet{Commit: commit, Objects: objects}})
}
