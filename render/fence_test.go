// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

var smallTree = fstest.MapFS{"a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}}

// stuckFS answers no read until it is released.
type stuckFS struct {
	fs.FS
	release chan struct{}
}

func (s stuckFS) Open(name string) (fs.File, error) {
	<-s.release
	return s.FS.Open(name)
}

func TestBuildThatTakesTooLongIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFence(time.Minute)
		stuck := stuckFS{smallTree, make(chan struct{})}
		_, err := f.build(t.Context(), job{tree: stuck, root: "."})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "gave up after 1m0s of building") {
			t.Errorf("err = %v", err)
		}

		// The stuck build keeps its turn; the next one says what it waits for.
		_, err = f.build(t.Context(), job{tree: smallTree, root: "."})
		if err == nil || !strings.Contains(err.Error(), "waiting for another build") {
			t.Errorf("err = %v", err)
		}

		close(stuck.release)
		synctest.Wait()
		if _, err = f.build(t.Context(), job{tree: smallTree, root: "."}); err != nil {
			t.Errorf("after the stuck build has ended: %v", err)
		}
	})
}

func TestContextEndsTheWaitAndTheBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFence(time.Minute)
		stuck := stuckFS{smallTree, make(chan struct{})}
		defer close(stuck.release)
		for range 2 { // the first is building, the second waits
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := f.build(ctx, job{tree: stuck, root: "."}); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v, want canceled", err)
			}
		}
	})
}

// panicFS panics where kustomize might.
type panicFS struct{ fs.FS }

func (panicFS) Open(string) (fs.File, error) { panic("secret: hunter2") }

func TestPanicIsAnErrorAndFreesTheTurn(t *testing.T) {
	f := newFence(time.Minute)
	_, err := f.build(t.Context(), job{tree: panicFS{smallTree}, root: "."})
	if err == nil || !strings.Contains(err.Error(), "panicked") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
	if _, err := f.build(t.Context(), job{tree: smallTree, root: "."}); err != nil {
		t.Errorf("the next build: %v", err)
	}
}
