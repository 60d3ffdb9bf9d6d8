// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/agent"
)

// named gives an agent a name in the Lease. Agents of one process would have
// the same one otherwise, and each take the Lease for its own.
func named(identity string) func(*agent.Config) {
	return func(cfg *agent.Config) { cfg.Identity = identity }
}

func TestSecondAgentWaitsAndTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{"agent.yaml": daemonSet(version, "v1"), "rules.yaml": rules{maxUnavailable: "6"}.yaml(w)})
	}
	w.commit(t, "version 1", files("1"))
	byFirst, bySecond := &requests{}, &requests{}
	first := w.start(t, named("first"), byFirst.of)
	w.settled(t, "1")

	second := w.start(t, named("second"), bySecond.of)
	testkit.Eventually(t, patience, func(context.Context) error {
		if len(second.log.lines("holder=first")) == 0 {
			return fmt.Errorf("the second agent does not say that it waits for the first")
		}
		return nil
	})
	w.commit(t, "version 2", files("2"))
	w.settled(t, "2")
	if sent := bySecond.all(); len(sent) > 0 {
		t.Errorf("the second agent acted while the first had the Lease: %v", sent)
	}

	holders := w.holders(t)
	first.stop(t)
	sentByFirst := len(byFirst.all())
	if held := holders("second"); !slices.Equal(held, []string{"first", "", "second"}) {
		t.Errorf("the Lease had the holders %q: want that the first gives it back and the second takes it", held)
	}
	w.commit(t, "version 3", files("3"))
	w.settled(t, "3")
	if sent := byFirst.all()[sentByFirst:]; len(sent) > 0 {
		t.Errorf("the first agent acted after it had stopped: %v", sent)
	}
	for node, n := range w.countByNode(t) {
		if n != 2 {
			t.Errorf("%s: its pod was deleted %d times, not once for each new version", node, n)
		}
	}
	w.withinBudget(t, 6)
}

func TestStandbyTakesOverFromADeadAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{"agent.yaml": daemonSet(version, "slow-1s"), "rules.yaml": rules{maxUnavailable: "3"}.yaml(w)})
	}
	w.commit(t, "version 1", files("1"))
	leader := w.spawn(t, "--listen", "")
	w.settled(t, "1")
	w.start(t, named("standby"))
	begun := w.next(t, podDeleted)
	w.commit(t, "version 2", files("2"))
	begun()
	leader.kill(t)
	w.holder(t, "standby")
	w.settled(t, "2")
	w.onceEach(t)
	w.withinBudget(t, 3)
}

// The last requests of a process that stops may take a while.
func TestLeaseIsKeptUntilTheLastWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hold := func(ctx context.Context, identity string, run func(context.Context) error) {
		lease := agent.Lease{Client: w.Client, Instance: w.instance, Identity: identity}
		if err := lease.Hold(ctx, run); err != nil {
			t.Errorf("%s: %v", identity, err)
		}
	}
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	began, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		hold(stopping, "first", func(ctx context.Context) error {
			<-ctx.Done()
			select {
			case <-began:
				t.Error("the second acts while the first still does")
			case <-time.After(6 * time.Second): // the second tries every few seconds
			}
			return nil
		})
	}()
	w.holder(t, "first")
	var second sync.WaitGroup
	defer second.Wait()
	second.Go(func() {
		hold(t.Context(), "second", func(context.Context) error {
			close(began)
			return nil
		})
	})
	stop()
	<-over
	lease, err := w.Client.CoordinationV1().Leases(w.namespace).Get(t.Context(), w.instance.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := lease.Spec.HolderIdentity; h != nil && *h == "first" {
		t.Error("the first has stopped and still has the Lease")
	}
	<-began
}

// A Lease that somebody deleted or edited has another holder, before this one had
// to renew it.
func TestLeaseThatIsTakenAwayEndsTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, looks := w.looking(t)
	lease := agent.Lease{Client: client, Instance: w.instance, Identity: "first"}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan int64, 1)
	var first sync.WaitGroup
	defer first.Wait()
	defer cancel()
	first.Go(func() {
		err := lease.Hold(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			over <- looks.Load()
			return nil
		})
		if err != nil {
			t.Errorf("first: %v", err)
		}
	})
	w.holder(t, "first")
	leases := w.Client.CoordinationV1().Leases(w.namespace)
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		edited, err := leases.Get(ctx, w.instance.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edited.Spec.HolderIdentity = new("second")
		_, err = leases.Update(ctx, edited, metav1.UpdateOptions{})
		return err
	})
	taken := looks.Load()
	if n := <-over - taken; n > 2 { // one may have been under way
		t.Errorf("the first went on though it had looked %d times who has the Lease", n)
	}
	w.holder(t, "second")
}

// looking is a client, and how often it has asked who has a Lease.
func (w *world) looking(t *testing.T) (kubernetes.Interface, *atomic.Int64) {
	t.Helper()
	looks := &atomic.Int64{}
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return look{next, looks} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, looks
}

type look struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (l look) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/leases/") {
		l.count.Add(1)
	}
	return l.next.RoundTrip(req)
}

// holders watches the Lease from now on. What it returns waits until somebody has
// it, and answers who has had it, one after another; "" is nobody.
func (w *world) holders(t *testing.T) func(until string) []string {
	t.Helper()
	leases := w.Client.CoordinationV1().Leases(w.namespace)
	list, err := leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Leases, want one: %v", len(list.Items), err)
	}
	changes, err := leases.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changes.Stop)
	held := []string{*list.Items[0].Spec.HolderIdentity}
	return func(until string) []string {
		t.Helper()
		testkit.Eventually(t, patience, func(ctx context.Context) error {
			for held[len(held)-1] != until {
				select {
				case e, ok := <-changes.ResultChan():
					lease, is := e.Object.(*coordinationv1.Lease)
					if !ok || !is {
						t.Fatalf("the watch of the Lease broke off: %+v", e)
					}
					holder := ""
					if h := lease.Spec.HolderIdentity; h != nil {
						holder = *h
					}
					held = slices.Compact(append(held, holder))
				case <-ctx.Done():
					return fmt.Errorf("the Lease is not held by %s, but has had the holders %q", until, held)
				}
			}
			return nil
		})
		return held
	}
}

// holder waits until somebody has the Lease.
func (w *world) holder(t *testing.T, identity string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		lease, err := w.Client.CoordinationV1().Leases(w.namespace).Get(ctx, w.instance.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if h := lease.Spec.HolderIdentity; h == nil || *h != identity {
			return fmt.Errorf("the Lease is not held by %s: %+v", identity, lease.Spec)
		}
		return nil
	})
}
