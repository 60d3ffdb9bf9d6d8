// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"lamplighter.dev/reconcile/health"
)

// Events are those that the API server still has about the subjects, the newest
// first. It asks once for each subject.
func (c *Cluster) Events(ctx context.Context, subjects []health.Subject) ([]health.Event, error) {
	lists := make([][]health.Event, len(subjects))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(c.opts.InFlight)
	for i, s := range subjects {
		work.Go(func() (err error) {
			lists[i], err = c.eventsAbout(ctx, s)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	var all []health.Event
	for _, list := range lists {
		all = append(all, list...)
	}
	health.SortEvents(all)
	return all, nil
}

func (c *Cluster) eventsAbout(ctx context.Context, s health.Subject) ([]health.Event, error) {
	selector := fields.Set{"involvedObject.kind": s.Kind, "involvedObject.name": s.Name.Name}
	if s.UID != "" {
		selector["involvedObject.uid"] = string(s.UID)
	}
	var list *corev1.EventList
	err := c.try(ctx, func(ctx context.Context) (err error) {
		list, err = c.typed.CoreV1().Events(s.Name.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: selector.AsSelector().String(), Limit: pageSize,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events := make([]health.Event, 0, len(list.Items))
	for i := range list.Items {
		events = append(events, health.EventOf(&list.Items[i]))
	}
	return events, nil
}
