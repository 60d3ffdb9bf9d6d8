// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

const (
	// longestNote is what the API server takes.
	longestNote = 1024
	// eventTimeout bounds one Event. None is worth waiting for.
	eventTimeout = 10 * time.Second
	// waitingEvents is how many may wait to be sent; the rest is dropped.
	waitingEvents = 100
)

// crier tells of happenings as Events of the objects they are about. An
// Event's name follows from what it says, so that none is sent twice: not by the
// next pass, nor by the next leader.
type crier struct {
	client   kubernetes.Interface
	identity string
	now      func() time.Time
	log      *slog.Logger

	proceeds []rollout.Proceed // in force at the last pass
	told     map[string]bool   // names of the Events of the last pass
	out      chan *eventsv1.Event
}

func newCrier(client kubernetes.Interface, identity string, now func() time.Time, log *slog.Logger) *crier {
	return &crier{client: client, identity: identity, now: now, log: log, out: make(chan *eventsv1.Event, waitingEvents)}
}

// hear takes in what a pass has brought. It does not block.
func (c *crier) hear(report reconcile.Report) {
	now := c.now()
	before := slices.Clone(c.proceeds)
	for _, p := range report.Before.Ledger.Proceeds {
		if report.Before.Ledger.Proceeding(p.Policy, p.Since) != nil && !now.Before(p.Until) {
			before = append(before, p) // it ended while nobody looked
		}
	}
	told := map[string]bool{}
	for _, h := range happenings(report, before, now) {
		e := c.event(h, now)
		if key := e.Namespace + "/" + e.Name; !told[key] {
			if told[key] = true; !c.told[key] {
				c.send(e)
			}
		}
	}
	c.told, c.proceeds = told, nil
	for _, p := range report.After.Ledger.Proceeds {
		if report.After.Ledger.Proceeding(p.Policy, now) != nil {
			c.proceeds = append(c.proceeds, p)
		}
	}
}

func (c *crier) send(e *eventsv1.Event) {
	select {
	case c.out <- e:
	default:
		c.log.Warn("too many events, one is dropped", "reason", e.Reason, "note", e.Note)
	}
}

func (c *crier) event(h happening, now time.Time) *eventsv1.Event {
	note := strings.ToValidUTF8(h.note[:min(len(h.note), longestNote)], "")
	about := h.about()
	sum := sha256.Sum256([]byte(strings.Join([]string{string(h.uid), string(h.reason), h.once}, "\x00")))
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault),
			Name:      about.Name[:min(len(about.Name), 200)] + "." + hex.EncodeToString(sum[:8]),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: "lamplighter.dev/agent",
		ReportingInstance:   c.identity[:min(len(c.identity), 128)],
		Action:              h.reason.action(),
		Reason:              string(h.reason),
		Type:                h.reason.level(),
		Note:                note,
		Regarding:           about,
	}
	if h.node != "" {
		e.Related = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: h.node}
	}
	return e
}

// run sends Events until ctx is done. Without the right to, it says so once.
func (c *crier) run(ctx context.Context) {
	complained := false
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.out:
			if err := c.create(ctx, e); err != nil && ctx.Err() == nil && !complained {
				complained = true
				c.log.Warn("events cannot be sent", "err", err)
			}
		}
	}
}

func (c *crier) create(ctx context.Context, e *eventsv1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	_, err := c.client.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
