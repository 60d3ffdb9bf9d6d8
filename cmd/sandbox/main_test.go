// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// asSandbox makes the test binary the sandbox itself, children included, so
// that the tests run the code they were built from.
const asSandbox = "SANDBOX_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asSandbox) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// deadline bounds every wait; on a loaded machine all takes several times longer.
const deadline = 90 * time.Second

// sandbox is one under test.
type sandbox struct {
	dir        folder
	cmd        *exec.Cmd
	complaints *strings.Builder // stderr; read it after wait
	client     kubernetes.Interface
}

// startSandbox returns when the sandbox has said that it is ready. It ends with
// the test.
func startSandbox(t *testing.T, args ...string) *sandbox {
	t.Helper()
	s := newSandbox(t, folder(t.TempDir()), args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // a test may have ended it
		_ = s.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	if want := "ready kubeconfig=" + s.dir.kubeconfig(); !lines.Scan() || lines.Text() != want {
		_ = s.cmd.Wait()
		t.Fatalf("first line: got %q, want %q; stderr:\n%s", lines.Text(), want, s.complaints)
	}
	s.client, err = newClient(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSandbox(t *testing.T, dir folder, args ...string) *sandbox {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{dir: dir, complaints: &strings.Builder{}}
	s.cmd = exec.Command(self, append([]string{"--dir=" + string(dir)}, args...)...)
	s.cmd.Env = append(os.Environ(), asSandbox+"=1")
	s.cmd.Stderr = s.complaints
	return s
}

// eventually fails the test when cond stays an error.
func eventually(t *testing.T, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", deadline, err)
		case <-tick.C:
		}
	}
}

func TestUsageErrorIsOneLine(t *testing.T) {
	s := newSandbox(t, folder(t.TempDir()), "--zones=99")
	if err := s.cmd.Run(); err == nil {
		t.Error("--zones=99: got success, want an error")
	}
	if got, want := s.complaints.String(), "sandbox: --zones 99 is outside 1 to 26\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFolderServesOneSandboxAtATime(t *testing.T) {
	dir := folder(t.TempDir())
	lock, err := dir.claim()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	s := newSandbox(t, dir)
	if err := s.cmd.Run(); err == nil {
		t.Error("in a claimed folder: got success, want an error")
	}
	if got, want := s.complaints.String(), fmt.Sprintf("sandbox: %s is in use by another sandbox\n", dir); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPortInUseIsRefused(t *testing.T) {
	port, err := holdPort(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holdPort(port); err == nil {
		t.Error("hold a held port: got success, want an error")
	}
}

func TestSecondSandboxRunsBesideTheFirst(t *testing.T) {
	one, two := startSandbox(t, "--nodes=1"), startSandbox(t, "--nodes=2")
	for s, want := range map[*sandbox]int{one: 1, two: 2} {
		nodes, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(nodes.Items); got != want {
			t.Errorf("nodes in %s: got %d, want %d", s.dir, got, want)
		}
	}
}
