// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"lamplighter.dev/cmd/lamplighter/show"
)

// externalDiff is the environment variable of kubectl that names a program to
// compare with: it is given a directory with what is live and one with what it
// would become.
const externalDiff = "KUBECTL_EXTERNAL_DIFF"

// argument is what may stand behind the program. As with kubectl, anything a
// shell would take apart is left out.
var argument = regexp.MustCompile(`^[a-zA-Z0-9-=]+$`)

// runExternalDiff lets a program print the differences. What happens to the
// objects goes to standard error, so that the answer is the program's alone. The
// values of Secrets are masked in the files too.
func runExternalDiff(ctx context.Context, g *globals, command string, diff show.Diff) (err error) {
	for _, o := range diff.Objects {
		fmt.Fprintln(g.streams.Err, o.Headline())
	}
	dir, err := os.MkdirTemp("", "lamplighter-diff-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	live, merged := filepath.Join(dir, "LIVE"), filepath.Join(dir, "MERGED")
	for _, side := range []string{live, merged} {
		if err := os.Mkdir(side, 0o700); err != nil {
			return err
		}
	}
	for _, o := range diff.Objects {
		if o.Diff == "" {
			continue
		}
		name := strings.ReplaceAll(o.Object, "/", ".")
		if err := errors.Join(writeSide(live, name, o.Live), writeSide(merged, name, o.Merged)); err != nil {
			return err
		}
	}
	words := strings.Fields(command)
	var args []string
	for _, word := range words[1:] {
		if argument.MatchString(word) {
			args = append(args, word)
		}
	}
	cmd := exec.CommandContext(ctx, words[0], append(args, live, merged)...)
	cmd.Stdout, cmd.Stderr = g.streams.Out, g.streams.Err
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil // it has found differences
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", externalDiff, words[0], err)
	}
	return nil
}

// writeSide writes one side of an object, unless it does not exist.
func writeSide(dir, name, content string) error {
	if content == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
}
