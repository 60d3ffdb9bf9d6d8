// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"lamplighter.dev/inventory"
)

// Options are what a Cluster works with. Zero durations take their defaults.
type Options struct {
	Instance inventory.Instance
	Log      *slog.Logger // discards if nil

	// Now is the clock. Without one, outcomes do not say how long they took,
	// and answers that count for a while only are asked for each time.
	Now func() time.Time

	// ForceConflicts takes fields that other managers hold, instead of
	// reporting them.
	ForceConflicts bool

	// TakeOverFrom are field managers of tools that managed these objects before,
	// such as kustomize-controller. Their fields become ours, and go away if Git
	// does not have them.
	TakeOverFrom []string
	// Adoption says which objects that exist already may become ours; the others
	// are not compared.
	Adoption inventory.Adoption

	// Partial lets each object stand for itself: what is new is sent without a
	// dry run, and refused one by one.
	Partial bool

	// DefinitionTimeout bounds the wait for a CustomResourceDefinition to be
	// served and for a namespace to be usable, before their members are
	// applied. Default 30 s.
	DefinitionTimeout time.Duration
	// DeletionTimeout bounds the wait for a deletion to be confirmed, after
	// which the object stays in the inventory. Default 10 s.
	DeletionTimeout time.Duration
	// RequestTimeout bounds one request. Default 30 s.
	RequestTimeout time.Duration
	// InFlight is how many objects are worked on at once, at most. It begins with
	// 16, or with this if it is less, and follows what the API server can bear.
	// Default 64.
	InFlight int
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.DefinitionTimeout = cmp.Or(o.DefinitionTimeout, 30*time.Second)
	o.DeletionTimeout = cmp.Or(o.DeletionTimeout, 10*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.InFlight = cmp.Or(o.InFlight, 64)
	return o
}

// Cluster is one API server. After Start it may be used by several goroutines.
type Cluster struct {
	opts      Options
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.ResettableRESTMapper
	throttle  *throttle

	changed   chan struct{}
	strangers strangers
	stop      <-chan struct{}
	running   sync.WaitGroup
	feeds     feeds

	mu          sync.Mutex // guards what follows
	kinds       map[schema.GroupKind]*kindWatch
	known       map[inventory.ID]known
	found       map[inventory.ID]*live   // as the last Inspect saw them
	glimpses    map[inventory.ID]glimpse // of what no watch sees
	rehearsals  map[inventory.ID]rehearsal
	cargoes     map[inventory.ID]cargo
	prepared    map[*unstructured.Unstructured]prepared
	tracked     map[inventory.ID]bool // rendered or owned, as the last Orphans had it
	trackedUIDs map[types.UID]bool
	strewn      map[schema.GroupKind]*meta.RESTMapping // kinds that may have strays
	strays      map[inventory.ID]types.UID             // as the last Strays saw them
	rediscovery time.Time                              // not before
}

// New returns a Cluster that talks to the API server of a config. It sends
// nothing yet.
func New(config *rest.Config, opts Options) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server's own priority and fairness is the limit
	config.WarningHandler = rest.NoWarnings{}
	c := &Cluster{
		opts:       opts.withDefaults(),
		changed:    make(chan struct{}, 1),
		kinds:      map[schema.GroupKind]*kindWatch{},
		known:      map[inventory.ID]known{},
		glimpses:   map[inventory.ID]glimpse{},
		rehearsals: map[inventory.ID]rehearsal{},
		cargoes:    map[inventory.ID]cargo{},
		strewn:     map[schema.GroupKind]*meta.RESTMapping{},
	}
	c.throttle = newThrottle(c.opts.InFlight)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return observed{next, c.throttle, c.clock, c.opts.RequestTimeout}
	})
	var err error
	if c.typed, err = kubernetes.NewForConfig(Protobuf(config)); err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	c.discovery = memory.NewMemCacheClient(c.typed.Discovery())
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	if c.feeds, err = c.newFeeds(); err != nil {
		return nil, err
	}
	return c, nil
}

// Start begins to watch nodes, DaemonSets, their revisions and their pods, and
// returns when all of them have been read once. The watches end with ctx; Wait
// returns when they have.
func (c *Cluster) Start(ctx context.Context) error {
	c.stop = ctx.Done()
	waits := c.feeds.start(c)
	for _, wait := range waits {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns when all watches have ended.
func (c *Cluster) Wait() { c.running.Wait() }

// Changed receives when something that matters has moved since the last
// receive, however much it was.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

// clock is the present, or the zero time without a clock.
func (c *Cluster) clock() time.Time {
	if c.opts.Now == nil {
		return time.Time{}
	}
	return c.opts.Now()
}

// deadline is the end of something that counts for a while; zero, and over at
// once, without a clock.
func (c *Cluster) deadline(holds time.Duration) time.Time {
	if c.opts.Now == nil {
		return time.Time{}
	}
	return c.opts.Now().Add(holds)
}

// over reports whether a deadline has passed.
func (c *Cluster) over(deadline time.Time) bool {
	return deadline.IsZero() || !c.clock().Before(deadline)
}

func (c *Cluster) notify() {
	select {
	case c.changed <- struct{}{}:
	default: // a notice is pending already
	}
}
