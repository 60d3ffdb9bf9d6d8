// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"testing"
	"time"

	"lamplighter.dev/render/gitsource"
)

func TestCommitThatTookTooLongIsReadAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		seen string
	}{
		{"given up", context.DeadlineExceeded, ""},
		{"refused", errors.New("no such file"), "c0ffee"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &poller{path: ".", now: time.Now, log: slog.New(slog.DiscardHandler)}
			p.read(t.Context(), gitsource.Commit{Hash: "c0ffee", Tree: brokenTree{test.err}})
			if p.last.err == nil {
				t.Error("the commit counts as in force")
			}
			if p.seen != test.seen {
				t.Errorf("the commit read last is %q, want %q", p.seen, test.seen)
			}
		})
	}
}

// brokenTree cannot be read.
type brokenTree struct{ err error }

func (b brokenTree) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: b.err}
}
