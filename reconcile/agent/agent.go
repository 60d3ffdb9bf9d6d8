// SPDX-License-Identifier: Apache-2.0

// Package agent is the process: it follows Git and the cluster, holds the
// instance's Lease, and runs a pass whenever either moved or the clock reached
// an instant that matters. It decides nothing itself.
//
//	a, err := agent.New(agent.Config{Source: gitsource.Options{URL: url}, Path: "clusters/prod", Cluster: restConfig})
//	err = a.Run(ctx) // until ctx is done
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent/webhook"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/render/gitsource"
)

// Config is what an agent needs to know.
type Config struct {
	// Source is the fleet repository.
	Source gitsource.Options
	// Path is the kustomize root in it, slash separated. Empty means the
	// repository's root.
	Path string
	// VerifyKeysFile holds the keys of which one must have signed a commit before
	// it is looked into: OpenPGP public keys, lines of allowed_signers, or both.
	// It is read for each new commit. Empty trusts every commit.
	VerifyKeysFile string
	// Verify is the object that must be signed. Empty means the commit.
	Verify Verify
	// DecryptionKeys is a file or folder with the age and OpenPGP keys that open
	// what SOPS has encrypted. It is read for each new commit. Empty opens nothing.
	DecryptionKeys string
	// ForwardOnly refuses a commit that was not made on top of the one in force.
	ForwardOnly bool
	// Interval is how often the remote is asked for a new commit. Zero means
	// one minute.
	Interval time.Duration

	// Cluster is the API server.
	Cluster *rest.Config
	// Namespace and Instance name the agent's own objects: its Lease, its
	// inventory and its ledger.
	Namespace, Instance string
	// Identity names this process in the Lease. Empty means the host name and
	// the process ID.
	Identity string
	// ForceConflicts takes fields that another manager holds.
	ForceConflicts bool
	// TakeOverFrom are field managers whose fields become ours.
	TakeOverFrom []string
	// AllowPrune lets one commit remove more than half of the objects: its hash,
	// or at least seven digits with which that begins. Empty means none.
	AllowPrune string
	// Drift says what becomes of what somebody else has changed. Empty corrects it.
	Drift inventory.DriftMode
	// Adoption says which objects that exist already may become ours.
	Adoption inventory.Adoption
	// Partial lets a commit come into force without the objects that cannot be
	// applied.
	Partial bool

	// Listen is the address of /healthz, /readyz and /metrics. Empty means
	// none is served.
	Listen string
	// Webhook is the address at which Git hosts say that somebody has pushed.
	// Empty means none.
	Webhook string
	// WebhookTokenFile holds the secret that they sign with. It is read for each
	// request.
	WebhookTokenFile string
	// Log takes the agent's log. Nil discards it.
	Log *slog.Logger
	// Now is the clock. Nil means the machine's.
	Now func() time.Time
}

// commitHash is a hash, or as much of it as tells it from others.
var commitHash = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// Validate lists everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Source.URL == "" {
		errs = append(errs, errors.New("--git is missing: name the fleet repository"))
	}
	if c.Interval < 0 || (c.Interval > 0 && c.Interval < time.Second) {
		errs = append(errs, fmt.Errorf("--interval %s: the shortest is 1s", c.Interval))
	}
	switch {
	case c.Verify != "" && c.Verify != VerifyCommit && c.Verify != VerifyTag:
		errs = append(errs, fmt.Errorf("--verify %q: use commit or tag", c.Verify))
	case c.Verify == VerifyTag && c.VerifyKeysFile == "":
		errs = append(errs, errors.New("--verify tag needs --verify-keys: the keys that are trusted"))
	}
	if c.AllowPrune != "" && !commitHash.MatchString(c.AllowPrune) {
		errs = append(errs, fmt.Errorf("--allow-prune=%s: name one commit by its hash, as in --allow-prune=9f2c1e7: the guard is lifted for that one only", c.AllowPrune))
	}
	if err := c.Drift.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--drift %w", err))
	}
	if (c.Webhook == "") != (c.WebhookTokenFile == "") {
		errs = append(errs, errors.New("--webhook and --webhook-token-file need each other: a receiver without a secret would believe anybody"))
	}
	if c.Cluster == nil || c.Namespace == "" || c.Instance == "" {
		errs = append(errs, errors.New("cluster, namespace and instance name are needed"))
	}
	return errors.Join(errs...)
}

// phase is where in its life an agent is.
type phase string

const (
	starting phase = "starting"
	standby  phase = "waiting for the lease"
	leading  phase = "leading"
)

// Agent is one process of one instance.
type Agent struct {
	cfg       Config
	log       *slog.Logger
	clientset kubernetes.Interface
	source    *gitsource.Source
	registry  *prometheus.Registry
	metrics   *Metrics
	clock     *Clock
	crier     *crier
	phase     atomic.Value // of type phase
	keptOut   atomic.Value // of type string: see keptOutOfForce
	pushes    *pushes
	receiver  *webhook.Receiver // nil without one
}

// New builds an agent. It asks the network nothing.
func New(cfg Config) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = withDefaults(cfg)
	clock := NewClock(cfg.Now)
	cfg.Cluster = clock.Through(cfg.Cluster)
	cfg.Cluster.DisableCompression = true // the API server is near
	cfg.Cluster.QPS = -1                  // its own priority and fairness is the limit
	clientset, err := kubernetes.NewForConfig(cluster.Protobuf(cfg.Cluster))
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	cfg.Source.Now = cfg.Now
	source, err := gitsource.New(cfg.Source)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a := &Agent{cfg: cfg, log: cfg.Log, clientset: clientset, source: source, registry: registry, metrics: NewMetrics(registry), clock: clock}
	clock.skewed = a.metrics.clock
	a.crier = newCrier(clientset, Lease{Identity: cfg.Identity}.identity(), cfg.Now, cfg.Log)
	a.setPhase(starting)
	a.pushes = newPushes(NewStore(clientset, a.instance()), cfg.Now, cfg.Log)
	if cfg.VerifyKeysFile != "" {
		if _, err := a.trust().keys(); err != nil {
			return nil, err
		}
	}
	if cfg.DecryptionKeys != "" {
		if _, err := DecryptionKeys(cfg.DecryptionKeys); err != nil {
			return nil, err
		}
	}
	if a.receiver, err = a.newReceiver(); err != nil {
		return nil, err
	}
	return a, nil
}

func withDefaults(cfg Config) Config {
	if cfg.Path == "" {
		cfg.Path = "."
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return cfg
}

func (a *Agent) setPhase(p phase) { a.phase.Store(p) }

// Run blocks until ctx is done, then releases the Lease and answers nil. It
// answers an error only for what a restart cannot be spared.
func (a *Agent) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if a.cfg.Listen != "" {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		a.log.Info("serving", "address", ln.Addr().String())
		group.Go(func() error { return a.serveHTTP(ctx, ln) })
	}
	if a.receiver != nil {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Webhook)
		if err != nil {
			return fmt.Errorf("listen for webhooks: %w", err)
		}
		a.log.Info("receiving webhooks", "address", ln.Addr().String(), "path", webhook.Path)
		group.Go(func() error { return serve(ctx, webhook.Server(a.receiver), ln) })
		group.Go(func() error { a.pushes.forward(ctx); return nil })
	}
	group.Go(func() error {
		a.setPhase(standby)
		return a.lead(ctx)
	})
	a.log.Info("agent started", "git", a.cfg.Source.URL, "path", a.cfg.Path, "instance", a.cfg.Instance)
	err := group.Wait()
	a.log.Info("agent stopped")
	return err
}

// lead takes part in the election until ctx is done or following fails.
func (a *Agent) lead(ctx context.Context) error {
	lease := a.lease()
	lease.OnHolder = func(identity string) {
		if identity != lease.identity() {
			a.log.Info("waiting for the lease", "lease", lease.String(), "holder", identity)
		}
	}
	for ctx.Err() == nil {
		err := lease.Hold(ctx, func(ctx context.Context) error {
			a.metrics.leading.Set(1)
			defer a.metrics.leading.Set(0)
			defer a.pushes.leading()()
			defer a.setPhase(standby)
			return a.follow(ctx)
		})
		if err != nil && !a.standsBack(ctx, err) {
			return err
		}
	}
	return nil
}

func (a *Agent) lease() Lease {
	return Lease{Client: a.clientset, Instance: a.instance(), Identity: a.cfg.Identity}
}
