// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
)

var moduleLine = regexp.MustCompile(`(?m)^module lamplighter\.dev$`)

// sandboxBinary is $LAMPLIGHTER_SANDBOX, or bin/sandbox in the repository,
// which it builds when it is missing.
func sandboxBinary() (string, error) {
	if path := os.Getenv("LAMPLIGHTER_SANDBOX"); path != "" {
		return filepath.Abs(path)
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", "sandbox")
	if _, err := os.Stat(binary); !errors.Is(err, fs.ErrNotExist) {
		return binary, err
	}
	return binary, buildSandbox(root, binary)
}

// buildSandbox builds the binary once, however many test processes want it.
func buildSandbox(root, binary string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(binary+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(binary); err == nil {
		return nil // another process was faster
	}
	build := exec.Command(filepath.Join(root, "cmd", "sandbox", "build.sh"), binary)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", binary, err, out)
	}
	return nil
}

// repositoryRoot is the folder of lamplighter.dev's own go.mod, above the
// folder of the package under test.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(content) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of lamplighter.dev above %s", start)
		}
	}
}
