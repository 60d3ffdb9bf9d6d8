// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lamplighter.dev/cmd/lamplighter/cli"
	"lamplighter.dev/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite what the tests compare with")

// nodes is enough for a rollout to have a first, a next and a last node, and for
// one with a GPU.
const nodes = 4

// TestMain runs the tests, or lamplighter itself: the scripts start this very
// binary under that name.
func TestMain(m *testing.M) {
	testscript.Main(withSandbox{m}, map[string]func(){"lamplighter": lamplighter})
}

type withSandbox struct{ *testing.M }

func (m withSandbox) Run() int { return testkit.Main(m.M, testkit.Options{Nodes: nodes}) }

// lamplighter is what main does.
func lamplighter() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
