// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lamplighter.dev/internal/testkit"
)

// TestScripts runs testdata/script/*.txtar: the real command on real
// directories, a real API server and real repositories. What lamplighter
// prints is gathered in a transcript, which each script compares with the one
// it holds; -update rewrites those.
//
// A script's objects live in the namespace of the script's own name, so that
// scripts run side by side.
func TestScripts(t *testing.T) {
	runScripts(t, filepath.Join("testdata", "script"), testkit.Sandbox(t))
}

func runScripts(t *testing.T, dir string, cluster *testkit.Cluster) {
	t.Helper()
	kube := newKube(t, cluster)
	examples, err := filepath.Abs(filepath.Join(repository, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", cluster.Kubeconfig)
			env.Setenv("TZ", "UTC")
			env.Setenv("EXAMPLES", examples)
			for name, value := range gitEnv {
				env.Setenv(name, value)
			}
			return kube.clear(strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"run":        run,
			"eventually": eventually,
			"kube":       kube.command,
			"silent":     silent,
		},
	})
}

// gitEnv makes git independent of who runs it, and commits the same each time.
var gitEnv = map[string]string{
	"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
	"GIT_AUTHOR_NAME": "Lamp Lighter", "GIT_AUTHOR_EMAIL": "lamp@example.com", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
	"GIT_COMMITTER_NAME": "Lamp Lighter", "GIT_COMMITTER_EMAIL": "lamp@example.com", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}

// run runs a command and adds to the transcript: the command line, standard
// output, standard error with "2> " before each line, and the exit code if it
// is not 0. The file raw, beside it, holds what was printed as it was, with what
// -v logs.
//
//	run lamplighter status -n shop
func run(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	if err := ts.Exec(args[0], args[1:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() < 0 {
			ts.Fatalf("%v: %v", args, err)
		}
		code = exit.ExitCode()
	}
	var b strings.Builder
	b.WriteString(ts.ReadFile("stdout"))
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		fmt.Fprintf(&b, "2> %s", line)
	}
	if code != 0 {
		fmt.Fprintf(&b, "[exit %d]\n", code)
	}
	work := ts.Getenv("WORK")
	ts.Check(appendTo(filepath.Join(work, "raw"), b.String()))
	text := normal(strings.ReplaceAll("$ "+strings.Join(args, " ")+"\n"+b.String(), work, "$WORK"))
	if slices.Contains(args, "-v") {
		text = logLine.ReplaceAllString(text, "")
	}
	ts.Check(appendTo(filepath.Join(work, "transcript"), text+"\n"))
}

func appendTo(name, text string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

var (
	instant = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)
	port    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	pod     = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`) // as Kubernetes makes up names
	logLine = regexp.MustCompile(`(?m)^2> time=.* level=.*\n`)
	zones   = regexp.MustCompile(`time zones \S+ \([^)]*\)`)
	holder  = regexp.MustCompile(`run by \S+_\d+,`)
)

// normal replaces what differs from run to run: instants near the present,
// ports, and names that are made up.
func normal(text string) string {
	text = instant.ReplaceAllStringFunc(text, func(s string) string {
		if t, err := time.Parse(time.RFC3339Nano, s); err != nil || time.Since(t).Abs() > 24*time.Hour {
			return s
		}
		return "<now>"
	})
	text = port.ReplaceAllString(text, "127.0.0.1:PORT")
	text = pod.ReplaceAllString(text, "-xxxxx")
	text = zones.ReplaceAllString(text, "time zones <release>")
	return holder.ReplaceAllString(text, "run by HOST_PID,")
}

// eventually runs a command until its output matches a pattern.
//
//	eventually 20s 'up to date' lamplighter status -n shop
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: eventually TIMEOUT PATTERN COMMAND...")
	}
	timeout, err := time.ParseDuration(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = ts.Exec(args[2], args[3:]...) // the output tells
		if pattern.MatchString(ts.ReadFile("stdout") + ts.ReadFile("stderr")) {
			return
		}
		select {
		case <-deadline.C:
			ts.Fatalf("not within %s: %s", timeout, pattern)
		case <-tick.C:
		}
	}
}

// silent puts the address of a server that takes connections and never answers
// in place of the word SILENT in a file.
//
//	silent kubeconfig.yaml
func silent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: silent FILE")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections that nobody accepts
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() }) // it has done its part
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "SILENT", listener.Addr().String())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
