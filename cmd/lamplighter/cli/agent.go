// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/render/gitsource"
)

// anyCommit is what the flag --allow-prune has without a value.
const anyCommit = "true"

// agentFlags are the flags of the agent alone.
type agentFlags struct {
	git, ref, path string
	auth           string
	proxy          string
	allowedHosts   []string
	maxPack        string
	cache          string
	submodules     bool
	forwardOnly    bool
	verifyKeys     string
	decryptionKeys string
	verify         string
	fetchTimeout   time.Duration
	interval       time.Duration
	listen         string
	webhook        string
	webhookToken   string
	logFormat      string
	forceConflicts bool
	drift          string
	takeOverFrom   []string
	allowPrune     string
	partial        bool
	adoption       inventory.Adoption
}

func newAgentCommand(g *globals) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent --git URL",
		Short: "Follow a Git repository and keep the cluster as it says",
		Long: `Run the loop: pull the fleet repository, apply what changed, and visit outdated
nodes while a window is open. One process of an instance acts at a time: the one
that holds the Lease.`,
		Example: "  lamplighter agent --git https://git.example.com/platform/fleet --ref main --path clusters/prod",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd); err != nil {
				return err
			}
			cfg, err := f.config(g)
			if err != nil {
				return err
			}
			klog.SetSlogLogger(newLogger(g.streams.Err, f.logFormat, slog.LevelInfo))
			a, err := agent.New(cfg)
			if err != nil {
				return err
			}
			spareMemory()
			return a.Run(cmd.Context())
		},
	}
	f.register(cmd)
	return cmd
}

// mayBeEmpty are the flags whose empty value says something: to serve nothing, or
// to lift no guard.
var mayBeEmpty = []string{"allow-prune", "listen", "webhook"}

// refuseEmpty refuses a flag that was given without a value, as by a template that
// lost it: a guard that somebody asked for would be gone without a word.
func refuseEmpty(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		common := cmd.InheritedFlags().Lookup(f.Name) != nil
		if v := f.Value.String(); (v == "" || v == "[]") && !common && !slices.Contains(mayBeEmpty, f.Name) {
			errs = append(errs, fmt.Errorf("--%s is empty: give it a value, or leave the flag out", f.Name))
		}
	})
	return errors.Join(errs...)
}

// spareMemory collects garbage twice as often as Go does by itself, unless GOGC
// says something else: much of what a pass looks at is copied, and passes are
// rare.
func spareMemory() {
	const often, byDefault = 50, 100
	if before := debug.SetGCPercent(often); before != byDefault {
		debug.SetGCPercent(before)
	}
}

// driftUsage describes --drift.
const driftUsage = "what becomes of an object that somebody else has changed since it was applied: correct, or report to leave it"

func (f *agentFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.git, "git", "", "URL of the fleet repository: https, ssh, git@host:path or file (required)")
	flags.StringVar(&f.ref, "ref", "main", "what to follow: a branch, a tag, semver:RANGE, a full reference or a commit's hash")
	flags.StringVar(&f.path, "path", ".", "kustomize root inside the repository")
	flags.DurationVar(&f.interval, "interval", time.Minute, "how often the remote is asked for a new commit")
	flags.DurationVar(&f.fetchTimeout, "fetch-timeout", time.Minute, "bound on one fetch")
	flags.StringVar(&f.auth, "git-auth", "", "folder with credentials for the remote, such as a mounted Secret; read at every fetch")
	flags.StringVar(&f.proxy, "git-proxy", "", "http, https or socks5 proxy to the remote; default from HTTPS_PROXY and NO_PROXY")
	flags.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "hosts that may be asked, such as git.example.com or git.example.com:8443; --git, a GitHub App's API and redirects are held against it; without it all are allowed")
	flags.StringVar(&f.maxPack, "git-max-pack", "128Mi", "how much the remote may send for one commit; four times that may be in it, and half in one file")
	flags.StringVar(&f.cache, "cache", "", "folder for the objects of the newest commit, which may be emptied at any time; without it they are kept in memory")
	flags.BoolVar(&f.submodules, "submodules", false, "fetch submodules too, those with a relative URL")
	flags.BoolVar(&f.forwardOnly, "ff-only", false, "refuse a commit that was not made on top of the one in force, as after a forced push")
	flags.StringVar(&f.verifyKeys, "verify-keys", "", "file with the keys that may sign, OpenPGP public keys or lines of allowed_signers; read for each new commit; without it every commit is trusted")
	flags.StringVar(&f.verify, "verify", string(agent.VerifyCommit), "what must be signed with one of them: commit, or tag for the annotated tag that --ref leads to")
	flags.StringVar(&f.decryptionKeys, "decryption-keys", "", decryptionKeysUsage+"; read for each new commit")
	flags.StringVar(&f.listen, "listen", ":8080", "address of /healthz, /readyz and /metrics; empty serves none")
	flags.StringVar(&f.webhook, "webhook", "", "address at which Git hosts say on /webhook that somebody has pushed, such as :9292; empty serves none")
	flags.StringVar(&f.webhookToken, "webhook-token-file", "", "file with the secret that webhooks are signed with; read for each request")
	flags.StringVar(&f.logFormat, "log-format", "text", "log format: text or json")
	flags.StringVar(&f.drift, "drift", string(inventory.CorrectDrift), driftUsage)
	flags.BoolVar(&f.forceConflicts, "force-conflicts", false, "take fields that another field manager holds")
	addTakeOverFrom(flags, &f.takeOverFrom)
	flags.StringVar(&f.allowPrune, "allow-prune", "", "let this one commit remove more than half of the objects: its hash, or the first seven digits of it or more")
	flags.Lookup("allow-prune").NoOptDefVal = anyCommit
	adoptionVar(flags, &f.adoption)
	flags.BoolVar(&f.partial, "partial", false, "let a commit come into force without the objects that cannot be applied")
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
	if f.allowPrune == anyCommit {
		return agent.Config{}, hint(errors.New("--allow-prune: the commit is missing, the guard is lifted for one only"), "write --allow-prune=9f2c1e7, with the hash of the commit that is meant to remove so much")
	}
	if f.interval < time.Second {
		return agent.Config{}, fmt.Errorf("--interval %s: the shortest is 1s", f.interval)
	}
	if f.fetchTimeout <= 0 {
		return agent.Config{}, fmt.Errorf("--fetch-timeout %s: a fetch takes some time, give it 1m or so", f.fetchTimeout)
	}
	maxPack, err := resource.ParseQuantity(f.maxPack)
	if err != nil || maxPack.Sign() <= 0 {
		return agent.Config{}, fmt.Errorf("--git-max-pack %q: use a size like 128Mi", f.maxPack)
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
			Auth: f.auth, Proxy: f.proxy, Cache: f.cache, Submodules: f.submodules,
			AllowedHosts: f.allowedHosts, Limits: gitsource.Limits{Pack: maxPack.Value()},
		},
		Path:           f.path,
		VerifyKeysFile: f.verifyKeys,
		DecryptionKeys: f.decryptionKeys,
		ForwardOnly:    f.forwardOnly,
		Verify:         agent.Verify(f.verify),
		Interval:       f.interval,
		Cluster:        cluster,
		Namespace:      g.namespace,
		Instance:       g.name,
		ForceConflicts: f.forceConflicts,
		Drift:          inventory.DriftMode(f.drift),
		TakeOverFrom:   f.takeOverFrom,
		AllowPrune:     strings.ToLower(f.allowPrune),
		Partial:        f.partial,
		Adoption:       f.adoption,
		Listen:         f.listen,
		Webhook:        f.webhook, WebhookTokenFile: f.webhookToken,
		Log: newLogger(g.streams.Err, f.logFormat, level),
	}, nil
}
