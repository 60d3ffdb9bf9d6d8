// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/gate"
)

const (
	// reachTimeout bounds how long a one-shot command waits for the API server to
	// answer at all.
	reachTimeout = 10 * time.Second
	// readTimeout bounds how long it then takes to read a cluster, however large.
	readTimeout = 5 * time.Minute
)

// connection is one instance on one API server, as a one-shot command sees it.
type connection struct {
	config     *rest.Config
	clientset  kubernetes.Interface
	instance   inventory.Instance
	cluster    *cluster.Cluster
	reconciler *reconcile.Reconciler
	states     agent.Store
	asker      *gate.Asker // nil for those who only look
}

// connectOptions are what commands want of a connection.
type connectOptions struct {
	forceConflicts  bool
	takeOverFrom    []string // field managers
	allowPrune      bool
	partial         bool
	drift           string // a mode; empty corrects it
	adoption        inventory.Adoption
	thorough        bool          // compare every object by a dry run
	deletionTimeout time.Duration // of one object; zero means the default
	careful         bool          // about to act: compare the clock, and find out what a plan has to know
}

func addTakeOverFrom(flags *pflag.FlagSet, managers *[]string) {
	flags.StringSliceVar(managers, "take-over-from", nil, "field managers of a tool that managed these objects before, such as kustomize-controller: their fields become ours, and go if Git does not have them")
}

// connect reads the cluster once and keeps watching until ctx is done.
func connect(ctx context.Context, g *globals, o connectOptions) (*connection, error) {
	if err := inventory.DriftMode(o.drift).Validate(); err != nil {
		return nil, fmt.Errorf("--drift %w", err)
	}
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	clock := agent.NewClock(now)
	config = clock.Through(config)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	if err := reachable(ctx, clientset, config.Host); err != nil {
		return nil, err
	}
	c := &connection{config: config, clientset: clientset, instance: inventory.Instance{Namespace: g.namespace, Name: g.name}}
	c.cluster, err = cluster.New(config, cluster.Options{Instance: c.instance, ForceConflicts: o.forceConflicts, TakeOverFrom: o.takeOverFrom, Partial: o.partial, Adoption: o.adoption, DeletionTimeout: o.deletionTimeout, Now: now, Log: g.logger()})
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	var view reconcile.Cluster = c.cluster
	if o.thorough {
		view = agent.Thorough(c.cluster)
	}
	c.states = agent.NewStore(clientset, c.instance)
	options := reconcile.Options{
		Instance:   c.instance,
		Identity:   agent.ThisProcess(),
		Cluster:    view,
		Store:      c.states,
		AllowPrune: o.allowPrune,
		Drift:      inventory.DriftMode(o.drift),
		Partial:    o.partial,
		Adoption:   o.adoption,
		Now:        now,
	}
	if o.careful || o.thorough {
		c.cluster.Sweep(ctx)
		options.Strays = c.cluster
	}
	if o.careful {
		options.Clock = clock.Asking(clientset)
		c.asker = agent.NewAsker(c.cluster, now)
		options.Asker = c.asker
		options.Drainer = c.cluster
		options.Jobs = c.cluster
		options.AwaitEvictions = true
	}
	c.reconciler = reconcile.NewReconciler(options)
	return c, nil
}

// start returns when the cluster has been read. Its watches go on until ctx is
// done.
func (c *connection) start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(readTimeout, func() { cancel(fmt.Errorf("gave up after %s", readTimeout)) })
	defer late.Stop()
	return c.cluster.Start(ctx)
}

// reachable asks the API server for its version, so that one that is down is
// one clear line and not a long silence.
func reachable(ctx context.Context, clientset kubernetes.Interface, host string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", reachTimeout)
		}
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // the URL is the host's
		}
		return hint(fmt.Errorf("API server %s: %w", host, err), "is the cluster up, and is it the one that --kubeconfig and --context name?")
	}
	return nil
}
