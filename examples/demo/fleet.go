// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// fleet is the repository: a working tree in which the platform team commits,
// and the bare one that the agent follows.
type fleet struct{ work, bare string }

// newFleet makes a repository of the example fleet.
func newFleet(ctx context.Context, root, dir string) (*fleet, error) {
	f := &fleet{work: filepath.Join(dir, "fleet"), bare: filepath.Join(dir, "fleet.git")}
	if err := os.CopyFS(f.work, os.DirFS(filepath.Join(root, "examples", "fleet"))); err != nil {
		return nil, fmt.Errorf("copy the example fleet: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch", "main", f.bare},
		{"init", "--quiet", "--initial-branch", "main", f.work},
		{"-C", f.work, "remote", "add", "origin", f.bare},
	} {
		if err := git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *fleet) write(path, content string) error {
	path = filepath.Join(f.work, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

//go:embed windows.yaml.tmpl
var windowsTemplate string

// opens writes windows that open at an instant, and a freeze a month later.
func (f *fleet) opens(at time.Time) error {
	t, err := template.New("windows.yaml").Parse(windowsTemplate)
	if err != nil {
		return err
	}
	stamp := func(t time.Time) string { return t.Format(time.RFC3339) }
	var text bytes.Buffer
	err = t.Execute(&text, map[string]string{
		"Start": stamp(at), "End": stamp(at.Add(time.Hour)),
		"FreezeStart": stamp(at.AddDate(0, 1, 0)), "FreezeEnd": stamp(at.AddDate(0, 2, 0)),
	})
	if err != nil {
		return err
	}
	return f.write("clusters/demo/windows.yaml", text.String())
}

// retag changes an image tag in the demo cluster's kustomization.
func (f *fleet) retag(from, to string) error {
	path := filepath.Join(f.work, "clusters/demo/kustomization.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(from)) {
		return fmt.Errorf("%s holds no %q", path, from)
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(data), from, to)), 0o644)
}

// commit commits what was changed and pushes it.
func (f *fleet) commit(ctx context.Context, message string) error {
	say("  git commit -am %q && git push", message)
	if err := git(ctx, "-C", f.work, "add", "--all"); err != nil {
		return err
	}
	if err := git(ctx, "-C", f.work, "commit", "--quiet", "--message", message); err != nil {
		return err
	}
	return f.push(ctx)
}

// revert takes the last commit back.
func (f *fleet) revert(ctx context.Context) error {
	say("  git revert HEAD && git push")
	if err := git(ctx, "-C", f.work, "revert", "--no-edit", "HEAD"); err != nil {
		return err
	}
	return f.push(ctx)
}

func (f *fleet) push(ctx context.Context) error {
	return git(ctx, "-C", f.work, "push", "--quiet", "origin", "main")
}

// git runs git without the user's configuration.
func git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Platform Team", "GIT_AUTHOR_EMAIL=platform@example.com",
		"GIT_COMMITTER_NAME=Platform Team", "GIT_COMMITTER_EMAIL=platform@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
