// SPDX-License-Identifier: Apache-2.0

// Command demo tells the main story on a sandbox of twelve nodes, with a Git
// server and the real agent: a commit waits for its window, the window opens
// and node after node is upgraded, a broken version halts after one node, and a
// revert heals it. It ends with exit code 0 only if each step was seen to hold.
//
// Run it with make demo. KEEP=1 leaves everything running at the end.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// limit is how long the story may take. A healthy one takes half of it.
const limit = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Getenv("KEEP") != "")
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) (err error) {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".demo")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stage := &stage{root: root, dir: dir}
	defer func() {
		if keep && err == nil {
			stage.leave()
			return
		}
		stage.clear(err == nil)
	}()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	if err := stage.set(ctx); err != nil {
		return err
	}
	if err := tell(ctx, stage); err != nil {
		return err
	}
	say("\nEvery step was seen to hold, in %s.", time.Since(began).Round(time.Second))
	return nil
}

// repositoryRoot is the folder above that holds the module.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("run it in the repository: no go.mod above %s", dir)
		}
		dir = parent
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
