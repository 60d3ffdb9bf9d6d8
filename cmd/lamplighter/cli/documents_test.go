// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
)

// repository is the root of the repository, seen from here.
var repository = filepath.Join("..", "..", "..")

// TestDocumentedCommandsRun runs the commands that the pages show, as they
// stand there, in the example fleet. Those with a placeholder in capitals,
// those about what only a running instance knows, and the agent, which goes on
// for ever, are left to other tests.
func TestDocumentedCommandsRun(t *testing.T) {
	t.Parallel()
	cluster := testkit.Sandbox(t)
	dir := t.TempDir()
	copyTree(t, filepath.Join(repository, "examples", "fleet"), dir)
	// What a page calls clusters/prod or path/to/fleet is the example's.
	copyTree(t, filepath.Join(dir, "clusters", "demo"), filepath.Join(dir, "clusters", "prod"))
	copyTree(t, filepath.Join(dir, "clusters"), filepath.Join(dir, "path", "to", "fleet", "clusters"))
	copyTree(t, filepath.Join(dir, "agents"), filepath.Join(dir, "path", "to", "fleet", "agents"))

	// And snapshot.json is one of this cluster.
	take := exec.CommandContext(t.Context(), "bash", "-c", "lamplighter snapshot --namespace documents > snapshot.json")
	take.Dir, take.Env = dir, append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	if out, err := take.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// And age.agekey is a key, though nothing here is encrypted.
	key, err := os.ReadFile(filepath.Join(repository, "render", "sops", "testdata", "keys", "age.agekey"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "age.agekey"), key, 0o600); err != nil {
		t.Fatal(err)
	}

	ran := 0
	for _, page := range []string{"README.md", "docs/install.md", "docs/runbook.md", "docs/concepts/windows.md", "docs/concepts/rollout.md", "docs/guides/pull-requests.md", "docs/guides/secrets.md", "docs/guides/migrating.md", "docs/checks.md", "docs/reference/cli.md"} {
		for _, line := range shellLines(t, page) {
			if !strings.HasPrefix(line, "lamplighter ") || placeholder.MatchString(line) || strings.HasPrefix(line, "lamplighter agent") {
				continue
			}
			ran++
			t.Run(line, func(t *testing.T) {
				line := otherCluster.ReplaceAllString(line, "") + " --namespace documents"
				if left, pipe, piped := strings.Cut(line, " | "); piped {
					line = left + " --namespace documents | cat # " + pipe
				}
				cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", line)
				cmd.Dir = dir
				cmd.Stdin = strings.NewReader("n\n")
				cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
				out, err := cmd.CombinedOutput()
				if code := exitCode(t, err); code > 1 {
					t.Errorf("exit code %d:\n%s", code, out)
				}
			})
		}
	}
	if ran < 10 {
		t.Errorf("found only %d commands: does the search still work?", ran)
	}
}

var (
	placeholder  = regexp.MustCompile(`\b(POLICY|NAMESPACE|NODE|POD)\b|--yes|--watch|resume|^lamplighter (uninstall|pause|proceed|hold|release)( |$)|(why|history) daemonset`)
	otherCluster = regexp.MustCompile(` --contexts? \S+`)
)

// shellLines are the commands of a page's sh and console blocks, which begin
// with the name of a program whatever its folder.
func shellLines(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, block := range blocks(string(text)) {
		for line := range strings.Lines(strings.ReplaceAll(block.text, "\\\n", "")) {
			line, prompted := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if line == "" || (block.language == "console" && !prompted) {
				continue
			}
			lines = append(lines, strings.TrimPrefix(line, "bin/"))
		}
	}
	return lines
}

// block is one fenced block of a page, and the section it stands in.
type block struct {
	section, language, text string
}

// blocks are the sh and console blocks of a page, in order.
func blocks(page string) []block {
	var found []block
	section, open := "", false
	for line := range strings.Lines(page) {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open:
			open = false
		case fence:
			open = true
			found = append(found, block{section: section, language: language})
		case open:
			found[len(found)-1].text += line
		case strings.HasPrefix(line, "## "):
			section = strings.TrimSpace(strings.TrimPrefix(line, "## "))
		}
	}
	var shell []block
	for _, b := range found {
		if b.language == "sh" || b.language == "console" {
			shell = append(shell, b)
		}
	}
	return shell
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
