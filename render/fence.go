// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// timeout bounds one build, the wait for the build before it included.
const timeout = time.Minute

// kustomize is the one fence of this process, because what it guards is
// process-wide too: kustomize keeps its OpenAPI schema in package variables.
var kustomize = newFence(timeout)

// fence lets one build at a time through, bounds it and turns its panics into
// errors.
type fence struct {
	turn    chan struct{} // holds one token while a build runs
	timeout time.Duration
}

func newFence(timeout time.Duration) *fence {
	return &fence{turn: make(chan struct{}, 1), timeout: timeout}
}

// job is what to build.
type job struct {
	tree      fs.FS
	root      string
	decryptor Decryptor // nil reads encrypted files as they are
}

// built is a build, and what it has read.
type built struct {
	output Output
	inputs inputs
}

// build runs one build. Kustomize cannot be interrupted: a build that is given
// up keeps its turn until it notices, at its next read, that ctx is done.
func (f *fence) build(ctx context.Context, j job) (built, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return built{}, f.gaveUp(ctx, j.root, "waiting for another build")
	}
	type result struct {
		built
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-f.turn }()
		b, err := contain(func() (built, error) { return build(ctx, j) })
		done <- result{b, err}
	}()
	select {
	case b := <-done:
		if b.err != nil && ctx.Err() != nil {
			return built{}, f.gaveUp(ctx, j.root, "building")
		}
		return b.built, b.err
	case <-ctx.Done():
		return built{}, f.gaveUp(ctx, j.root, "building")
	}
}

func (f *fence) gaveUp(ctx context.Context, root, while string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: gave up after %s of %s: %w", root, f.timeout, while, ctx.Err())
	}
	return fmt.Errorf("%s: %s: %w", root, while, ctx.Err())
}

// contain puts errors on one line and turns a panic of kustomize into an error.
// The value of the panic may quote an object, so only its kind is told.
func contain(build func() (built, error)) (out built, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = built{}, fmt.Errorf("kustomize panicked (%T): this tree hits a bug in kustomize", p)
		}
	}()
	out, err = build()
	if err != nil {
		err = oneLined{err}
	}
	return out, err
}

// oneLined is an error on one line, whatever it quotes.
type oneLined struct{ error }

func (e oneLined) Unwrap() error { return e.error }

func (e oneLined) Error() string {
	return strings.Join(strings.Fields(e.error.Error()), " ")
}
