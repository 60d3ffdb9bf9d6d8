// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/check"
)

func newCheckCommand(g *globals) *cobra.Command {
	var f treeFlags
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Check a working tree: what is wrong, and what is known to go wrong later",
		Long: `Check a working tree without a cluster: whether it renders, whether Kubernetes and
the agent will take it, whether the examples of the windows hold, and what is
known to go wrong with DaemonSets that are upgraded node by node. docs/checks.md
explains each check; the annotation lamplighter.dev/ignore-checks on an object
silences some. Exit code 0 without findings of level error, 1 with some, 2 if the
tree cannot be read.`,
		Example: `  lamplighter check . --path clusters/prod
  lamplighter check . --path clusters/prod -o json`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.check(cmd.Context(), dirArg(args))
			if err != nil {
				return err
			}
			checked := show.NewChecked(report)
			if err := printAnswer(g, checked, show.WriteChecked); err != nil {
				return err
			}
			if checked.Errors > 0 {
				return exitCode(exitSignal)
			}
			return nil
		},
	}
	f.register(cmd)
	return cmd
}

// check checks the kustomize root in dir. An error is about reading it; that it
// does not render is a finding.
func (f *treeFlags) check(ctx context.Context, dir string) (_ check.Report, err error) {
	reader, err := f.reader()
	if err != nil {
		return check.Report{}, err
	}
	tree, closeTree, err := openTree(dir)
	if err != nil {
		return check.Report{}, err
	}
	defer func() {
		if closeErr := closeTree(); err == nil {
			err = closeErr
		}
	}()
	seen, err := reader.Examine(ctx, tree, f.path, now())
	switch {
	case err == nil:
		return check.Run(check.Fleet{Objects: seen.Objects, Policies: seen.Policies, Set: seen.Set, Problems: seen.Problems}), nil
	case ctx.Err() != nil, errors.Is(err, fs.ErrPermission), !isThere(tree, f.path):
		return check.Report{}, err
	default:
		return check.Unreadable(err), nil
	}
}

func isThere(tree fs.FS, name string) bool {
	info, err := fs.Stat(tree, path.Clean(name))
	return err == nil && info.IsDir()
}
