// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
)

// patience bounds the wait for a process to say what it should.
const patience = time.Minute

func TestWatchPrintsWhatChangesUntilToldToEnd(t *testing.T) {
	t.Parallel()
	cluster := testkit.Sandbox(t)
	namespace := cluster.Namespace(t)
	applyConfigMap(t, cluster, namespace, "info")

	watchers := map[string]*process{
		"text": start(t, cluster, "status", "-n", namespace, "--watch", "--nodes"),
		"json": start(t, cluster, "status", "-n", namespace, "--watch", "-o", "json"),
		"yaml": start(t, cluster, "status", "-n", namespace, "--watch", "-o", "yaml"),
	}
	for _, w := range watchers {
		w.says(t, namespace+"/lamplighter", 1)
	}
	taken := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: %s}\ndata: {level: theirs}\n", namespace)
	if err := newKube(t, cluster).apply(t.Context(), "autoscaler", taken); err != nil {
		t.Fatal(err)
	}
	applyConfigMap(t, cluster, namespace, "debug", "--partial") // refused
	for format, w := range watchers {
		w.says(t, namespace+"/lamplighter", 2)
		w.says(t, "Conflict", 1)
		if stderr, err := w.interrupt(); err != nil || stderr != "" {
			t.Errorf("%s: got %v and %q, want a quiet end", format, err, stderr)
		}
	}
	if got := watchers["yaml"].stdout.String(); !strings.HasSuffix(got, "---\n") {
		t.Errorf("YAML documents are not separated:\n%s", got)
	}
}

func TestAgentWaitsForAnAPIServerThatIsAway(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	away := `{"current-context": "away", "contexts": [{"name": "away", "context": {"cluster": "away"}}],
		"clusters": [{"name": "away", "cluster": {"server": "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(away), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, &testkit.Cluster{Kubeconfig: kubeconfig}, "agent", "--git", "file:///fleet", "--listen", "")
	testkit.Eventually(t, patience, func(context.Context) error {
		if got := p.stderr.String(); !strings.Contains(got, "127.0.0.1:1: connect: connection refused") {
			return fmt.Errorf("it does not say what is away:\n%s", got)
		}
		return nil
	})
	if stderr, err := p.interrupt(); err != nil || !strings.Contains(stderr, `msg="agent stopped"`) {
		t.Errorf("got %v, want it to end as it was told:\n%s", err, stderr)
	}
}

// applyConfigMap applies a ConfigMap with lamplighter, whatever comes of it.
func applyConfigMap(t *testing.T, cluster *testkit.Cluster, namespace, level string, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: %s}\ndata: {level: %s}\n", namespace, level)
	if err := os.WriteFile(filepath.Join(dir, "settings.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, cluster, append([]string{"apply", dir, "-n", namespace, "--yes"}, flags...)...)
	p.says(t, "unchanged; 0 pods evicted", 1)
	<-p.done
}

// process is a lamplighter that runs beside the test.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	done           chan struct{}
	err            error // once done
}

func start(t *testing.T, cluster *testkit.Cluster, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), "lamplighter", args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p
}

// says waits until a text has come at least so often.
func (p *process) says(t *testing.T, text string, times int) {
	t.Helper()
	testkit.Eventually(t, patience, func(context.Context) error {
		if got := p.stdout.String(); strings.Count(got, text) < times {
			return fmt.Errorf("%v does not say %q %d times:\n%s\n%s", p.cmd.Args, text, times, got, &p.stderr)
		}
		return nil
	})
}

// interrupt ends the process as Ctrl-C does.
func (p *process) interrupt() (stderr string, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return "", err
	}
	<-p.done
	return p.stderr.String(), p.err
}

// buffer is a buffer that is written and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(data)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
