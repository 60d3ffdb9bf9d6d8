// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/render/gitsource"
)

// agentFlags are the flags of the agent alone.
type agentFlags struct {
	git, ref, path string
	username       string
	passwordFile   string
	tokenFile      string
	caFile         string
	fetchTimeout   time.Duration
	interval       time.Duration
	listen         string
	logFormat      string
	forceConflicts bool
	allowPrune     bool
}

func newAgentCommand(g *globals) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent --git URL",
		Short: "Follow a Git repository and keep the cluster like it",
		Long: `Run the loop: pull the fleet repository, apply what changed, and visit outdated
nodes while a window is open. One process of an instance acts at a time: the one
that holds the Lease.`,
		Example: "  lamplighter agent --git https://git.example.com/platform/fleet --ref main --path clusters/prod",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(g)
			if err != nil {
				return err
			}
			klog.SetSlogLogger(newLogger(g.streams.Err, f.logFormat, slog.LevelInfo))
			a, err := agent.New(cfg)
			if err != nil {
				return err
			}
			return a.Run(cmd.Context())
		},
	}
	f.register(cmd)
	return cmd
}

func (f *agentFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.git, "git", "", "URL of the fleet repository: https, http or file (required)")
	flags.StringVar(&f.ref, "ref", "main", "branch to follow")
	flags.StringVar(&f.path, "path", ".", "kustomize root inside the repository")
	flags.DurationVar(&f.interval, "interval", time.Minute, "how often the remote is asked for a new commit")
	flags.DurationVar(&f.fetchTimeout, "fetch-timeout", time.Minute, "bound on one fetch")
	flags.StringVar(&f.username, "git-username", "", "user name for the remote")
	flags.StringVar(&f.passwordFile, "git-password-file", "", "file that holds the password for the remote")
	flags.StringVar(&f.tokenFile, "git-token-file", "", "file that holds a bearer token for the remote")
	flags.StringVar(&f.caFile, "git-ca-file", "", "file with the certificate authorities of the remote, in PEM")
	flags.StringVar(&f.listen, "listen", ":8080", "address of /healthz, /readyz and /metrics; empty serves none")
	flags.StringVar(&f.logFormat, "log-format", "text", "log format: text or json")
	flags.BoolVar(&f.forceConflicts, "force-conflicts", false, "take fields that another field manager holds")
	flags.BoolVar(&f.allowPrune, "allow-prune", false, "let a commit remove more than half of the objects")
}

func (f *agentFlags) config(g *globals) (agent.Config, error) {
	if g.output != formatText {
		return agent.Config{}, fmt.Errorf("-o %s: the agent prints no answer, --log-format sets the format of its log", g.output)
	}
	if f.git == "" {
		return agent.Config{}, hint(errors.New("--git is missing: name the fleet repository"), "lamplighter agent --git https://git.example.com/platform/fleet --path clusters/prod")
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		return agent.Config{}, fmt.Errorf("--log-format %q: use text or json", f.logFormat)
	}
	password, err := readSecretFile("--git-password-file", f.passwordFile)
	if err != nil {
		return agent.Config{}, err
	}
	token, err := readSecretFile("--git-token-file", f.tokenFile)
	if err != nil {
		return agent.Config{}, err
	}
	ca, err := readSecretFile("--git-ca-file", f.caFile)
	if err != nil {
		return agent.Config{}, err
	}
	cluster, err := g.config()
	if err != nil {
		return agent.Config{}, err
	}
	level := slog.LevelInfo
	if g.verbose {
		level = slog.LevelDebug
	}
	return agent.Config{
		Source: gitsource.Options{
			URL: f.git, Ref: f.ref, Timeout: f.fetchTimeout,
			Username: f.username, Password: password, BearerToken: token, CABundle: []byte(ca),
		},
		Path:           f.path,
		Interval:       f.interval,
		Cluster:        cluster,
		Namespace:      g.namespace,
		Instance:       g.name,
		ForceConflicts: f.forceConflicts,
		AllowPrune:     f.allowPrune,
		Listen:         f.listen,
		Log:            newLogger(g.streams.Err, f.logFormat, level),
	}, nil
}

// readSecretFile reads a credential. Its content appears in no error.
func readSecretFile(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return strings.TrimSpace(string(data)), nil
}
