// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/inventory/store/storetest"
)

// Requests are told apart though the clocks of those who make them are not.
func TestRequestReachesWhoWatches(t *testing.T) {
	leader, _, instance := fixture(t)
	if err := leader.Save(t.Context(), storetest.Example()); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { leader.Watch(ctx, func() {}); close(done) }()
	defer func() { end(); <-done }()

	person := store.New(testkit.Sandbox(t).Client, instance)
	var last time.Time
	at := time.Date(2026, 11, 30, 11, 0, 0, 5, time.UTC)
	for _, clock := range []time.Time{at, at, at.Add(-time.Hour), at.Add(time.Hour)} {
		name, err := person.Request(t.Context(), clock)
		if err != nil || !name.After(last) {
			t.Fatalf("request at %s is named %s, want later than %s (%v)", clock, name, last, err)
		}
		last = name
		testkit.Eventually(t, time.Minute, func(context.Context) error {
			if got := leader.Requested(); !got.Equal(name) {
				return fmt.Errorf("the watch has seen %s, want %s", got, name)
			}
			return nil
		})
	}
	if _, err := leader.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := storetest.Example()
	state.Ledger.Visits[0].Node = "node-2"
	if err := leader.Save(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if name, err := person.Request(t.Context(), at); err != nil || !name.After(last) {
		t.Errorf("a save has lost the request: the next one is named %s, want later than %s (%v)", name, last, err)
	}
}
