// SPDX-License-Identifier: Apache-2.0

// Package cli is the command tree: flags, environment and argv end here.
// Every command parses, calls the packages that do the work, and prints what
// they answer; none decides anything. Standard output is the answer, standard
// error all the rest, and the exit code says which of the documented ends it
// was:
//
//	os.Exit(cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Exit codes of the contract. What 1 means is each command's own: changes for
// diff, something failed for apply and status.
const (
	exitOK     = 0
	exitSignal = 1
	exitError  = 2
)

// exitCode ends a command that has said all it has to say.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// hintError adds the one line that tells the user what to do.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

func hint(err error, format string, args ...any) error {
	return hintError{err, fmt.Sprintf(format, args...)}
}

// Run runs one command line and answers with its exit code.
func Run(ctx context.Context, args []string, s Streams) int {
	root := NewCommand(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(s.Err, "lamplighter: %s\n", strings.TrimRight(line, "\n"))
	}
	if h, ok := errors.AsType[hintError](err); ok {
		fmt.Fprintf(s.Err, "hint: %s\n", h.hint)
	}
	return exitError
}

// NewCommand is the whole command tree. The reference pages are made from it.
func NewCommand(s Streams) *cobra.Command {
	g := &globals{streams: s}
	root := &cobra.Command{
		Use:   "lamplighter COMMAND [DIR]",
		Short: "GitOps for what runs on every Kubernetes node",
		Long: `Lamplighter pulls a Git repository of DaemonSet definitions, renders them with
kustomize, applies them with server-side apply, and takes node after node to the
new version inside the maintenance windows that the same repository lists.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          oneCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			klog.SetSlogLogger(g.libraryLogger())
			return g.validate(cmd)
		},
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint(err, "%s --help lists the flags", cmd.CommandPath())
	})
	root.SetUsageTemplate(oneUsageLine(root.UsageTemplate()))
	g.register(root)
	addGroup(root, "Read a working tree, without a cluster:",
		newRenderCommand(g), newCheckCommand(g), newWindowsCommand(g))
	addGroup(root, "Bring a commit to a cluster:",
		newDiffCommand(g), newSnapshotCommand(g), newPlanCommand(g), newApplyCommand(g), newInstallCommand(g), newAgentCommand(g), newSyncCommand(g))
	addGroup(root, "See what happens, and why:",
		newStatusCommand(g), newWhyCommand(g), newHistoryCommand(g))
	addGroup(root, "Have a say in it:",
		newPauseCommand(g), newResumeCommand(g), newProceedCommand(g), newHoldCommand(g), newReleaseCommand(g))
	addGroup(root, "Take it away again:",
		newUninstallCommand(g))
	root.AddCommand(newVersionCommand(g))
	refuseUnknownTopics(root)
	refuseUnknownShells(root)
	return root
}

// addGroup adds commands that help lists together, under a title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
		root.AddCommand(c)
	}
}

// oneUsageLine drops the second usage line of a command that has both a usage
// of its own and subcommands.
func oneUsageLine(template string) string {
	const own, sub = "{{end}}{{if .HasAvailableSubCommands}}\n  {{.CommandPath}}", "{{else if .HasAvailableSubCommands}}\n  {{.CommandPath}}"
	return strings.Replace(template, own, sub, 1)
}
