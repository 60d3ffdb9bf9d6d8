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
	"testing"
)

var moduleLine = regexp.MustCompile(`(?m)^module lamplighter\.dev$`)

// sandboxBinary is $LAMPLIGHTER_SANDBOX, or bin/sandbox in the repository,
// which it builds when it is missing.
func sandboxBinary() (string, error) {
	return built("LAMPLIGHTER_SANDBOX", "sandbox", "cmd/sandbox/build.sh")
}

// forgeHome is $LAMPLIGHTER_FORGE, or bin/forge in the repository, which it makes
// when it is missing: a folder with a Gitea and the files that it reads.
func forgeHome() (string, error) {
	return built("LAMPLIGHTER_FORGE", "forge", "internal/forge/build.sh")
}

// built is what a variable names, or else what a script of the repository makes in
// bin.
func built(variable, name, script string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return filepath.Abs(path)
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	product := filepath.Join(root, "bin", name)
	return product, builtOnce(product, func(out string) *exec.Cmd {
		return exec.Command(filepath.Join(root, filepath.FromSlash(script)), out)
	})
}

// Kubectl is bin/kubectl in the repository, of the sandbox's version of Kubernetes.
// It builds it when it is missing.
func Kubectl(t testing.TB) string {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(root, "bin", "kubectl")
	err = builtOnce(binary, func(out string) *exec.Cmd {
		build := exec.Command("go", "build", "-trimpath", "-o", out, "k8s.io/kubernetes/cmd/kubectl")
		build.Dir, build.Env = filepath.Join(root, "cmd", "sandbox"), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		return build
	})
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// builtOnce builds a binary, or a folder with one, if it is missing: once, however
// many test processes want it.
func builtOnce(binary string, build func(out string) *exec.Cmd) error {
	if _, err := os.Stat(binary); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
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
	unfinished := binary + ".new"
	if out, err := build(unfinished).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", binary, err, out)
	}
	return os.Rename(unfinished, binary)
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
