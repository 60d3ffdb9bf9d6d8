// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// globals are the flags that every command has.
type globals struct {
	streams Streams

	kubeconfig string
	context    string
	namespace  string
	name       string
	output     string
	color      string
	verbose    bool
}

func (g *globals) register(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&g.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config, then in-cluster)")
	flags.StringVar(&g.context, "context", "", "kubeconfig context")
	flags.StringVarP(&g.namespace, "namespace", "n", "lamplighter-system", "namespace of the instance's own objects")
	flags.StringVar(&g.name, "name", "lamplighter", "name of the instance")
	flags.StringVarP(&g.output, "output", "o", formatText, "output format: text, json or yaml; plan has markdown too, and windows ics")
	flags.StringVar(&g.color, "color", "auto", "color: auto, always or never")
	flags.BoolVarP(&g.verbose, "verbose", "v", false, "log what is done and decided, on standard error")
	complete := func(flag string, values ...string) {
		cobra.CheckErr(root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	cobra.CheckErr(root.RegisterFlagCompletionFunc("output", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return formatsOf(cmd), cobra.ShellCompDirectiveNoFileComp
	}))
	complete("color", "auto", "always", "never")
	complete("context")
	complete("namespace")
	complete("name")
}

// The output formats.
const (
	formatText = "text"
	formatJSON = "json"
	formatYAML = "yaml"
	formatICS  = "ics"
	// formatMarkdown is for comments on pull requests.
	formatMarkdown = "markdown"
)

// moreFormats annotates a command that has an output format of its own.
const moreFormats = "lamplighter.dev/output-formats"

// formatsOf are the output formats of a command.
func formatsOf(cmd *cobra.Command) []string {
	formats := []string{formatText, formatJSON, formatYAML}
	if more := cmd.Annotations[moreFormats]; more != "" {
		formats = append(formats, more)
	}
	return formats
}

var (
	instanceName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// validate checks the flags that more than one command reads.
func (g *globals) validate(cmd *cobra.Command) error {
	if !instanceName.MatchString(g.name) {
		return fmt.Errorf("--name %q: use at most 42 lower-case letters, digits and dashes", g.name)
	}
	if !namespaceName.MatchString(g.namespace) {
		return fmt.Errorf("--namespace %q: use at most 63 lower-case letters, digits and dashes", g.namespace)
	}
	switch g.color {
	case "auto", "always", "never":
	default:
		return fmt.Errorf("--color %q: use auto, always or never", g.color)
	}
	if formats := formatsOf(cmd); !slices.Contains(formats, g.output) {
		last := len(formats) - 1
		return fmt.Errorf("-o %q: use %s or %s", g.output, strings.Join(formats[:last], ", "), formats[last])
	}
	return nil
}

// colored answers whether the output may carry color.
func (g *globals) colored() bool {
	switch g.color {
	case "always":
		return true
	case "never":
		return false
	}
	f, ok := g.streams.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""
}

// config reads the kubeconfig as kubectl does.
func (g *globals) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: g.context}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, hint(errors.New("kubeconfig: there is none"), "name a cluster with --kubeconfig and --context")
	case err != nil:
		return nil, hint(fmt.Errorf("kubeconfig: %w", err), "name a cluster with --kubeconfig and --context")
	}
	cfg.UserAgent = "lamplighter/" + version()
	cfg.QPS = -1 // the API server's own priority and fairness is the limit
	return cfg, nil
}

// logger writes to standard error: warnings only, unless -v asks for more.
func (g *globals) logger() *slog.Logger {
	level := slog.LevelWarn
	if g.verbose {
		level = slog.LevelDebug
	}
	return newLogger(g.streams.Err, "text", level)
}

// libraryLogger is where Kubernetes' libraries log. What matters to the user
// of a one-shot command comes as its error, so only -v shows the rest, and not
// what is of use to the libraries' own developers.
func (g *globals) libraryLogger() *slog.Logger {
	if !g.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return newLogger(g.streams.Err, "text", slog.LevelInfo)
}

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
