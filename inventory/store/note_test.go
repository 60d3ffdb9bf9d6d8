// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/inventory/store/storetest"
)

func TestNoteWakesWhoWatchesAndChangesNothing(t *testing.T) {
	leader, _, instance := fixture(t)
	standby := store.New(testkit.Sandbox(t).Client, instance)
	at := time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)
	if err := standby.Note(t.Context(), at); err == nil || !strings.Contains(err.Error(), "leave a note in ConfigMap/"+instance.Namespace+"/lamplighter-ledger: ") {
		t.Errorf("without a ledger: %v", err)
	}

	state := storetest.Example()
	if err := leader.Save(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	var woken atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { leader.Watch(ctx, func() { woken.Add(1) }); close(done) }()
	defer func() { end(); <-done }()
	for i := range int64(2) {
		if err := standby.Note(t.Context(), at.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func(context.Context) error {
			if woken.Load() <= i {
				return fmt.Errorf("woken %d times, want more than %d", woken.Load(), i)
			}
			return nil
		})
	}

	state.Ledger.Visits[0].Node = "node-2"
	if err := leader.Save(t.Context(), state); !errors.Is(err, store.ErrStale) {
		t.Errorf("save after a note: %v, want to look again", err)
	}
	got, err := leader.Load(t.Context())
	if diff := cmp.Diff(storetest.Example(), got); err != nil || diff != "" {
		t.Errorf("%v, state (-want +got):\n%s", err, diff)
	}
	if err := leader.Save(t.Context(), state); err != nil {
		t.Errorf("save after looking again: %v", err)
	}
}
