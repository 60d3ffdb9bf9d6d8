// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

func (g *globals) register(flags *pflag.FlagSet) {
	flags.StringVar(&g.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config, then in-cluster)")
	flags.StringVar(&g.context, "context", "", "kubeconfig context")
	flags.StringVarP(&g.namespace, "namespace", "n", "lamplighter-system", "namespace of the instance's own objects")
	flags.StringVar(&g.name, "name", "lamplighter", "name of the instance")
	flags.StringVarP(&g.output, "output", "o", "text", "output format: text, json or yaml")
	flags.StringVar(&g.color, "color", "auto", "color: auto, always or never")
	flags.BoolVarP(&g.verbose, "verbose", "v", false, "log what is done and decided, on standard error")
}

var instanceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$`)

// validate checks the flags that more than one command reads. It lists the
// formats the command has.
func (g *globals) validate(formats ...string) error {
	if !instanceName.MatchString(g.name) {
		return fmt.Errorf("--name %q: use at most 42 lower-case letters, digits and dashes", g.name)
	}
	switch g.color {
	case "auto", "always", "never":
	default:
		return fmt.Errorf("--color %q: use auto, always or never", g.color)
	}
	for _, f := range formats {
		if g.output == f {
			return nil
		}
	}
	return fmt.Errorf("-o %q: this command has %s", g.output, orList(formats))
}

func orList(words []string) string {
	out := ""
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			out += " and "
		default:
			out += ", "
		}
		out += w
	}
	return out
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
	if err != nil {
		return nil, hint(fmt.Errorf("kubeconfig: %w", err), "name a cluster with --kubeconfig and --context")
	}
	cfg.UserAgent = "lamplighter/" + version()
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

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// dirArg is the working tree a command reads: its argument, or here.
func dirArg(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

func maxOneDir(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return hint(fmt.Errorf("%s takes one directory, got %d arguments", cmd.Name(), len(args)), "%s --help shows the usage", cmd.CommandPath())
	}
	return nil
}
