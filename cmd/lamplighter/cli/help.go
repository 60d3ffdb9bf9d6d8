// SPDX-License-Identifier: Apache-2.0

package cli

import "github.com/spf13/cobra"

// refuseUnknownShells makes "completion" for a shell that there is none for an
// error too.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	cobra.CheckErr(err)
	completion.Use, completion.Args = "completion SHELL", oneCommand
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// refuseUnknownTopics makes "help" for a command that does not exist the error
// that it is without "help".
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	cobra.CheckErr(err)
	help.RunE = func(_ *cobra.Command, args []string) error {
		topic, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return oneCommand(root, args)
		}
		topic.InitDefaultHelpFlag()
		return topic.Help()
	}
}
