// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"lamplighter.dev/inventory"
)

// The Lease's times, as the control plane's own components have them.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// releaseTimeout bounds how long a process that stops tries to give the Lease
// back.
const releaseTimeout = 5 * time.Second

// Lease is an instance's right to act. One process has it at a time.
type Lease struct {
	Client   kubernetes.Interface
	Instance inventory.Instance
	// Identity names this process. Empty means the host name and process ID.
	Identity string
	// OnHolder is told who has the Lease, whenever that changes.
	OnHolder func(identity string)
}

func (l Lease) String() string { return l.Instance.Namespace + "/" + l.Instance.Name }

func (l Lease) identity() string {
	if l.Identity != "" {
		return l.Identity
	}
	return ThisProcess()
}

// ThisProcess is the host name and the process ID.
func ThisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s_%d", host, os.Getpid())
}

// Holder is the process that has the Lease now; "" if none has.
func (l Lease) Holder(ctx context.Context, now time.Time) (string, error) {
	lease, err := l.Client.CoordinationV1().Leases(l.Instance.Namespace).Get(ctx, l.Instance.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lease %s: %w", l, err)
	}
	return holderOf(lease, now), nil
}

// holderOf is who has a Lease that has not run out.
func holderOf(lease *coordinationv1.Lease, now time.Time) string {
	s := lease.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return ""
	}
	if now.After(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)) {
		return ""
	}
	return *s.HolderIdentity
}

// Hold waits for the Lease and calls run while it is held; run's context ends
// the moment the Lease can no longer be proved ours. When ctx ends, the Lease is
// given back as soon as run has returned. It answers what run answers, or nil
// when ctx ended or the Lease was lost before that.
func (l Lease) Hold(ctx context.Context, run func(context.Context) error) error {
	term := &term{run: run, done: make(chan struct{})}
	ctx, term.end = context.WithCancel(ctx)
	defer term.end()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: watched{&resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Instance.Namespace, Name: l.Instance.Name},
			Client:     l.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity()},
		}, term},
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		// The elector would give the Lease back before run has returned: the
		// next process would act beside what is still in flight. It would also
		// try to before it tells run that the Lease is lost.
		ReleaseOnCancel: false,
		Name:            l.Instance.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: term.start,
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if l.OnHolder != nil {
					l.OnHolder(identity)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s: %w", l, err)
	}
	elector.Run(ctx)
	lost := ctx.Err() == nil
	failure := term.wait()
	if !lost {
		_ = l.release(context.WithoutCancel(ctx)) // at worst the next process waits until it expires
	}
	return failure
}

// Delete removes the Lease of an instance that is no more, unless somebody has
// taken it. It says whether there was one.
func (l Lease) Delete(ctx context.Context, now time.Time) (bool, error) {
	leases := l.Client.CoordinationV1().Leases(l.Instance.Namespace)
	lease, err := leases.Get(ctx, l.Instance.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lease %s: %w", l, err)
	}
	if holder := holderOf(lease, now); holder != "" {
		return false, fmt.Errorf("lease %s: %s has taken it", l, holder)
	}
	err = leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete lease %s: %w", l, err)
	}
	return true, nil
}

// release gives the Lease back if this process has it. The elector's last renewal
// may still be on its way.
func (l Lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	leases := l.Client.CoordinationV1().Leases(l.Instance.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(ctx, l.Instance.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if h := lease.Spec.HolderIdentity; h == nil || *h != l.identity() {
			return nil
		}
		lease.Spec.HolderIdentity = nil
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// watched is a lock whose term ends as soon as it is seen to have another holder:
// it was deleted, or edited. The elector would go on until renewDeadline.
type watched struct {
	resourcelock.Interface
	term *term
}

func (w watched) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := w.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != w.Identity() {
		w.term.depose()
	}
	return record, raw, err
}

// term is the time for which a Lease is held. The elector starts run in a
// goroutine of its own and does not wait for it; term does.
type term struct {
	run func(context.Context) error
	end context.CancelFunc

	mu         sync.Mutex
	began      bool
	over       bool
	done       chan struct{}
	runFailure error
}

func (t *term) start(ctx context.Context) {
	t.mu.Lock()
	t.began = !t.over
	t.mu.Unlock()
	if !t.began {
		return
	}
	defer close(t.done)
	defer t.end()
	t.runFailure = t.run(ctx)
}

// depose ends the term if it has begun.
func (t *term) depose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began {
		t.end()
	}
}

func (t *term) wait() error {
	t.mu.Lock()
	t.over = true
	began := t.began
	t.mu.Unlock()
	if !began {
		return nil
	}
	<-t.done
	return t.runFailure
}
