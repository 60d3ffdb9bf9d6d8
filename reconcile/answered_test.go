// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"
)

// Wherever a pass that answers a request is cut short, the answer is on record
// only if all else that it had to write is.
func TestRequestIsAnsweredByAWholePass(t *testing.T) {
	first, second := map[string]string{"a": "1", "b": "1", "old": "1"}, map[string]string{"a": "2", "b": "1", "new": "1"}
	request := time.Date(2026, 11, 30, 11, 0, 0, 5, time.UTC)
	for dies := 1; ; dies++ {
		w := &world{objects: map[string]string{}}
		w.settle(t, first)
		w.writes, w.dies = 0, dies
		src := source(second)
		src.Answers = request
		_, err := w.process().Pass(t.Context(), src)
		if err == nil && w.writes < dies {
			if dies < 5 {
				t.Fatalf("a pass wrote only %d times: nothing was tested", w.writes)
			}
			if got := w.stored.Record.Answered; !got.Equal(request) {
				t.Errorf("answered %s, want %s", got, request)
			}
			return
		}
		if !w.stored.Record.Answered.IsZero() {
			t.Fatalf("died at write %d, and the request is answered", dies)
		}
	}
}

func TestAnswerIsWrittenOnceAndNeverTakenBack(t *testing.T) {
	w := &world{objects: map[string]string{}}
	fleet := map[string]string{"a": "1"}
	p := w.settle(t, fleet)
	request := time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)
	w.writes = 0
	for _, answers := range []time.Time{request, request, {}, request.Add(-time.Hour)} {
		src := source(fleet)
		src.Answers = answers
		if _, err := p.Pass(t.Context(), src); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.stored.Record.Answered; w.writes != 1 || !got.Equal(request) {
		t.Errorf("%d writes, answered %s: want one, and %s", w.writes, got, request)
	}
}
