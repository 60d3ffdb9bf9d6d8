// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/cli"
)

func TestDocumentedCommandsExist(t *testing.T) {
	targets := makeTargets(read(t, "Makefile").Text)
	found := 0
	for _, f := range files(t, ".md", ".yaml") {
		cmds := commands(f)
		found += len(cmds)
		report(t, checkCommands(cmds, commandTree(), targets))
	}
	if found < 10 {
		t.Errorf("found only %d commands in all documents: does the search still work?", found)
	}
}

func TestCommandRulesFail(t *testing.T) {
	page := file{"a.md", "" +
		"Run `lamplighter gone` or `lamplighter version`, never `lamplighter COMMAND`.\n" +
		"```console\n" +
		"$ bin/lamplighter render --path p --gone=1 | head\n" +
		"lamplighter is what this output speaks of\n" +
		"$ FOO=1 lamplighter frobnicate\n" +
		"```\n" +
		"```sh\n" +
		"make build && make gone KEEP=1   # then\n" +
		"lamplighter version \\\n" +
		"  -o json \\\n" +
		"  -z\n" +
		"```\n" +
		"```yaml\nlamplighter: gone\n```\n"}
	targets := map[string]bool{"build": true}
	wantProblems(t, checkCommands(commands(page), commandTree(), targets),
		"a.md:1: lamplighter has no command gone",
		"a.md:3: lamplighter render has no flag --gone",
		"a.md:5: lamplighter has no command frobnicate",
		"a.md:8: the Makefile has no target gone",
		"a.md:9: lamplighter version has no flag -z")
	wantProblems(t, checkCommands(commands(file{"d.yaml", "spec:\n  args:\n  - agent\n  - --gone=x\n  - --git=x\n"}), commandTree(), targets),
		"d.yaml:2: lamplighter agent has no flag --gone")
}

func commandTree() *cobra.Command {
	tree := cli.NewCommand(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	tree.InitDefaultHelpCmd()
	tree.InitDefaultCompletionCmd("render")
	return tree
}

// command is one command line of a document.
type command struct {
	File  string
	Line  int
	Words []string
}

var (
	inline    = regexp.MustCompile("`((?:kubectl )?lamplighter [^`]+|make [^`]+)`")
	agentArgs = regexp.MustCompile(`(?m)^( *)args:\n((?: *- .*\n)+)`)
	separator = regexp.MustCompile(`&&|\|\||[;|]`)
)

// commands finds the command lines of a document: in a page, its console and
// sh blocks and its inline code; in a manifest, the arguments of a container
// whose first is "agent".
func commands(f file) []command {
	if strings.HasSuffix(f.Path, ".yaml") {
		return containerCommands(f)
	}
	var found []command
	for _, l := range prose(f.Text) {
		for _, m := range inline.FindAllStringSubmatch(l.Text, -1) {
			found = append(found, command{f.Path, l.Number, strings.Fields(m[1])})
		}
	}
	language, started := "", 0
	whole := "" // a command line whose lines end in a backslash, up to here
	for i, text := range strings.Split(f.Text, "\n") {
		trimmed := strings.TrimSpace(text)
		if fence, ok := strings.CutPrefix(trimmed, "```"); ok {
			if language == "" {
				language = fence + "`" // even an unnamed block is one
			} else {
				language = ""
			}
			continue
		}
		prompted, isPrompt := strings.CutPrefix(trimmed, "$ ")
		switch {
		case language == "sh`":
		case language == "console`" && (isPrompt || whole != ""):
			trimmed = prompted
		default:
			continue
		}
		if whole == "" {
			started = i + 1
		}
		more := strings.HasSuffix(trimmed, "\\")
		whole += strings.TrimSuffix(trimmed, "\\")
		if more {
			continue
		}
		whole, _, _ = strings.Cut(whole, " #")
		for _, part := range separator.Split(whole, -1) {
			found = append(found, command{f.Path, started, strings.Fields(part)})
		}
		whole = ""
	}
	return found
}

func containerCommands(f file) []command {
	var found []command
	for _, m := range agentArgs.FindAllStringSubmatchIndex(f.Text, -1) {
		words := []string{"lamplighter"}
		for _, l := range strings.Split(strings.TrimSpace(f.Text[m[4]:m[5]]), "\n") {
			words = append(words, strings.TrimPrefix(strings.TrimSpace(l), "- "))
		}
		if words[1] == "agent" {
			found = append(found, command{f.Path, 1 + strings.Count(f.Text[:m[0]], "\n"), words})
		}
	}
	return found
}

func checkCommands(cmds []command, tree *cobra.Command, targets map[string]bool) []problem {
	var problems []problem
	for _, c := range cmds {
		for _, what := range brokenCommand(c.Words, tree, targets) {
			problems = append(problems, problem{c.File, c.Line, what})
		}
	}
	return problems
}

// brokenCommand answers what is wrong with a command line; nothing is wrong
// with a program that is not ours.
func brokenCommand(words []string, tree *cobra.Command, targets map[string]bool) []string {
	for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo" || words[0] == "kubectl") {
		words = words[1:] // variables before the program, and kubectl before its plugin
	}
	if len(words) < 2 {
		return nil
	}
	switch path.Base(words[0]) {
	case "make":
		return brokenTargets(words[1:], targets)
	case "lamplighter":
		return brokenArguments(words[1:], tree)
	}
	return nil
}

func brokenTargets(words []string, targets map[string]bool) []string {
	var wrong []string
	for _, w := range words {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") && !targets[w] {
			wrong = append(wrong, fmt.Sprintf("the Makefile has no target %s", w))
		}
	}
	return wrong
}

func brokenArguments(words []string, tree *cobra.Command) []string {
	if first := words[0]; first == strings.ToUpper(first) && !strings.HasPrefix(first, "-") {
		return nil // a placeholder
	}
	cmd, rest, err := tree.Find(words)
	if err != nil || cmd == tree && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return []string{fmt.Sprintf("lamplighter has no command %s", words[0])}
	}
	cmd.InitDefaultHelpFlag()
	var wrong []string
	for _, w := range rest {
		name, _, _ := strings.Cut(w, "=")
		if w == "--" {
			break
		}
		if strings.HasPrefix(w, "-") && len(w) > 1 && !hasFlag(cmd, name) {
			wrong = append(wrong, fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), name))
		}
	}
	return wrong
}

func hasFlag(cmd *cobra.Command, name string) bool {
	if long, ok := strings.CutPrefix(name, "--"); ok {
		return cmd.Flags().Lookup(long) != nil || cmd.InheritedFlags().Lookup(long) != nil
	}
	short := name[1:2]
	return cmd.Flags().ShorthandLookup(short) != nil || cmd.InheritedFlags().ShorthandLookup(short) != nil
}

// makeTargets are the targets of a Makefile.
func makeTargets(makefile string) map[string]bool {
	targets := make(map[string]bool)
	for _, l := range strings.Split(makefile, "\n") {
		if name, _, ok := strings.Cut(l, ":"); ok && name != "" && !strings.ContainsAny(name, " \t#$=.") {
			targets[name] = true
		}
	}
	return targets
}
