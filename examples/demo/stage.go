// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// stopTimeout bounds how long a process may take to stop when it is told to.
const stopTimeout = 15 * time.Second

// stage is everything that runs during the story.
type stage struct {
	root, dir  string
	kubeconfig string
	fleet      *fleet
	server     *gitServer
	sandbox    *process
	agent      *process
	audience   *audience
}

// set starts the sandbox, the Git server with the fleet in it, and the agent.
func (s *stage) set(ctx context.Context) (err error) {
	say("Starting a Kubernetes control plane with 12 simulated nodes ...")
	if s.sandbox, s.kubeconfig, err = startSandbox(ctx, s.root, s.dir); err != nil {
		return err
	}
	say("  export KUBECONFIG=%s", s.kubeconfig)
	if s.fleet, err = newFleet(ctx, s.root, s.dir); err != nil {
		return err
	}
	if s.server, err = serveGit(s.fleet.bare); err != nil {
		return err
	}
	if err := createNamespace(ctx, s.kubeconfig); err != nil {
		return err
	}
	say("\nStarting the agent ...")
	say("  lamplighter agent --git %s --ref main --path clusters/demo --interval 1s", s.server.url)
	s.agent, err = start(filepath.Join(s.dir, "agent.log"), s.lamplighter("agent",
		"--git", s.server.url, "--ref", "main", "--path", "clusters/demo", "--interval", "1s", "--listen", ""))
	if err != nil {
		return err
	}
	s.audience, err = watch(ctx, s.lamplighter("status", "--watch", "-o", "json"))
	return err
}

// lamplighter is a command of the binary under show, on the sandbox.
func (s *stage) lamplighter(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.root, "bin", "lamplighter"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	return cmd
}

// run runs a command to its end and answers what it printed.
func (s *stage) run(ctx context.Context, args ...string) (string, error) {
	cmd := s.lamplighter(args...)
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended by itself
	defer stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("lamplighter %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// clear stops everything and removes what was made, except the logs of a story
// that did not end well.
func (s *stage) clear(well bool) {
	if s.audience != nil {
		s.audience.leave()
	}
	s.agent.stop()
	s.server.stop()
	s.sandbox.stop()
	if !well {
		say("\nThe logs are in %s.", s.dir)
		return
	}
	if err := os.RemoveAll(s.dir); err != nil {
		say("%v", err)
	}
}

// leave keeps the cluster and says how to look at it and how to end it. The Git
// server ends with the demo, so the agent keeps the last commit in force.
func (s *stage) leave() {
	s.audience.leave()
	s.server.stop()
	say("\nThe sandbox and the agent go on, with the last commit in force: the Git server is gone. Look around:")
	say("  export KUBECONFIG=%s", s.kubeconfig)
	say("  bin/lamplighter status --nodes")
	say("and end them with:")
	say("  kill %d %d", s.agent.cmd.Process.Pid, s.sandbox.cmd.Process.Pid)
}

// process is a program that goes on until it is told to stop.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// start starts a program in a process group of its own, so that Ctrl-C reaches
// only the demo, which then stops it in order.
func start(logPath string, cmd *exec.Cmd) (*process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own descriptor
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end and waits until it has.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// startSandbox starts the control plane and waits until it is ready.
func startSandbox(ctx context.Context, root, dir string) (*process, string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(filepath.Join(root, "bin", "sandbox"), "--nodes", "12", "--zones", "3", "--dir", filepath.Join(dir, "sandbox"))
	cmd.Stdout = write
	p, err := start(filepath.Join(dir, "sandbox.log"), cmd)
	if err != nil {
		return nil, "", errors.Join(err, write.Close(), read.Close())
	}
	if err := write.Close(); err != nil {
		return p, "", err
	}
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadString('\n') // without a line it has died, and done says so
		ready <- strings.TrimSpace(line)
	}()
	select {
	case line := <-ready:
		if kubeconfig, ok := strings.CutPrefix(line, "ready kubeconfig="); ok {
			return p, kubeconfig, nil
		}
		return p, "", fmt.Errorf("the sandbox did not start: see %s", filepath.Join(dir, "sandbox.log"))
	case <-ctx.Done():
		return p, "", fmt.Errorf("the sandbox is not ready: %w", context.Cause(ctx))
	}
}

// createNamespace makes the namespace that an installation of the agent brings
// with it.
func createNamespace(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lamplighter-system"}}
	_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return err
}
