// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lamplighter.dev/reconcile"
)

// What changes waits for company, but a new commit for nobody: what it has replaced is not
// begun.
func TestCommitIsNotKeptWaitingByWhatChanges(t *testing.T) {
	for name, test := range map[string]struct {
		commit bool
		after  time.Duration
	}{
		"changes alone":    {false, 200 * time.Millisecond},
		"a commit as well": {true, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &Agent{metrics: NewMetrics(prometheus.NewRegistry())}
				changed, updates := make(chan struct{}, 1), make(chan update, 1)
				before, refused := errors.New("before"), errors.New("refused")
				signal(changed)
				if test.commit {
					go func() {
						<-time.After(test.after)
						updates <- update{err: refused}
					}()
				}
				began := time.Now()
				src := a.await(t.Context(), triggers{changed: changed, updates: updates, gather: 200 * time.Millisecond}, time.Hour, nil, reconcile.Source{Err: before})
				if got := time.Since(began); got != test.after {
					t.Errorf("waited for %s, want %s", got, test.after)
				}
				if want := map[bool]error{false: before, true: refused}[test.commit]; !errors.Is(src.Err, want) {
					t.Errorf("got %v, want %v", src.Err, want)
				}
			})
		})
	}
}
