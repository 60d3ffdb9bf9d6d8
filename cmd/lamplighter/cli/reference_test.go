// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lamplighter.dev/cmd/lamplighter/cli"
)

// TestReferenceIsTheCommandTree compares docs/reference/cli.md with the
// commands and flags there are; -update rewrites it.
func TestReferenceIsTheCommandTree(t *testing.T) {
	t.Parallel()
	intro, err := os.ReadFile(filepath.Join("testdata", "reference-intro.md"))
	if err != nil {
		t.Fatal(err)
	}
	root := cli.NewCommand(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd("render")
	want := string(intro) + reference(root)

	page := filepath.Join("..", "..", "..", "docs", "reference", "cli.md")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the commands say (run this test with -update) (-want +got):\n%s", page, diff)
	}
}

// reference describes the flags that all commands have, then each command.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("\n## Common flags\n\n" + flagTable(root.PersistentFlags()))
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(&b, "\n## lamplighter %s\n\n%s\n", c.Name(), sentence(c))
		if c.HasSubCommands() {
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, "`"+sub.Name()+"`")
			}
			fmt.Fprintf(&b, "\n`%s` of %s; each has a `--help` that says how to load it.\n", c.CommandPath()+" SHELL", strings.Join(names, ", "))
			continue
		}
		fmt.Fprintf(&b, "\n```\n%s\n```\n", c.UseLine())
		if c.Example != "" {
			var lines []string
			for line := range strings.Lines(c.Example) {
				lines = append(lines, strings.TrimSpace(line))
			}
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", strings.Join(lines, "\n"))
		}
		if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
			b.WriteString("\n" + flagTable(flags))
		}
	}
	return b.String()
}

// sentence is a command's own text.
func sentence(c *cobra.Command) string {
	if c.Long == "" || c.HasSubCommands() {
		return c.Short + "."
	}
	return c.Long
}

func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| flag | default | |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name += ", -" + f.Shorthand
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return b.String()
}
