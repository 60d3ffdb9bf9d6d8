// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// dirArg is the working tree a command reads: its argument, or here.
func dirArg(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

func maxOneDir(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage(cmd, "%s takes one directory, got %d arguments", cmd.Name(), len(args))
	}
	return nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

func onePolicy(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(cmd, "%s takes the name of one policy, got %d arguments", cmd.Name(), len(args))
	}
	return nil
}

// oneCommand refuses what is no command, and suggests what may be meant.
func oneCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return hint(err, "did you mean %s?", strings.Join(near, " or "))
	}
	return hint(err, "%s --help lists the commands", root.CommandPath())
}

func usage(cmd *cobra.Command, format string, args ...any) error {
	return hint(fmt.Errorf(format, args...), "%s --help shows the usage", cmd.CommandPath())
}

// completeDir completes the argument of a command that reads a working tree.
func completeDir(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
