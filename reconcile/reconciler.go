// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// Cluster is what a pass needs of the API server.
type Cluster interface {
	// Snapshot is what the watches have told of the nodes and their DaemonSets.
	Snapshot() (nodes []health.Node, daemonSets []health.DaemonSet, pods []*health.Pod)
	// Inspect compares rendered objects with the live ones. It asks the API
	// server only about what has changed on either side.
	Inspect(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error)
	// Orphans reads the metadata of objects that are owned and not rendered.
	Orphans(ctx context.Context, ids []inventory.ID) ([]inventory.Live, error)
	// Apply carries out steps in order, and Prune does so for deletions.
	// Each step is reviewed when its turn has come, by several goroutines maybe.
	Apply(ctx context.Context, steps [][]inventory.Decision, review func(step []inventory.Decision) []inventory.Decision) []inventory.Outcome
	Prune(ctx context.Context, steps [][]inventory.Decision, review func(step []inventory.Decision) []inventory.Decision) []inventory.Outcome
	// Template is the pod template that a DaemonSet had at a revision.
	Template(ctx context.Context, daemonSet types.NamespacedName, revision string) (map[string]any, error)
	// Evict sends an eviction, once. It is called by several goroutines.
	Evict(ctx context.Context, decision rollout.Decision) rollout.Attempt
}

// Asker finds out what a plan has to know and the cluster's watches do not tell.
// What it has found out counts from the next pass on, so no pass waits for it.
type Asker interface {
	// Ask begins to find out about questions and returns at once. All asking
	// ends with ctx.
	Ask(ctx context.Context, questions []rollout.Question)
	// Answers are those so far.
	Answers() rollout.Answers
}

// Store keeps an instance's state. Save answers an error if somebody else has
// written since the last Load or Save, and writes only what has changed.
type Store interface {
	Load(ctx context.Context) (State, error)
	Save(ctx context.Context, s State) error
}

// Source is the newest word from Git.
type Source struct {
	// Fleet is the last commit that could be used; nil when there is none yet.
	Fleet *Fleet
	// Err says why the newest commit is not in force; nil when it is.
	Err error
	// Answers is the newest request for a pass that was known when Git was looked
	// at; zero if there is none.
	Answers time.Time
}

// Strays finds objects that carry our marks and are neither rendered nor owned. It
// is asked after Orphans.
type Strays interface {
	Strays(ctx context.Context) ([]inventory.Live, error)
}

// Options are what a Reconciler works with.
type Options struct {
	Instance inventory.Instance
	// Identity names this process in the record while it leads.
	Identity string
	Cluster  Cluster
	Store    Store
	// Asker answers the questions of plans. Without one a pass evicts nothing
	// that depends on an answer, and Observe supposes that nothing speaks
	// against an eviction but what is on record.
	Asker Asker
	// Drainer empties nodes. Without one none is, and none visited whose policy
	// wants that.
	Drainer Drainer
	// Jobs runs what gates run. Without it none runs, and visits that wait for one
	// come to nothing.
	Jobs Jobs
	// Strays finds what carries our marks and is not ours. Without it nobody looks.
	Strays Strays
	// AwaitEvictions makes a pass wait until it is known what has become of its evictions,
	// as the last one has to. Otherwise that counts from the next pass on.
	AwaitEvictions bool
	// AllowPrune lets a commit remove more than half of the objects, or all.
	AllowPrune bool
	// AllowPruneOf does so for one commit: the hash of it, or how that begins.
	// Empty means none.
	AllowPruneOf string
	// Adoption says which objects that exist already may become ours.
	Adoption inventory.Adoption
	// Partial lets a commit come into force of which some objects cannot be
	// applied. They are left out.
	Partial bool
	// Drift says what becomes of what somebody else has changed. Empty corrects it.
	Drift inventory.DriftMode
	// Now is the clock.
	Now func() time.Time
	// Clock judges it. Nil trusts it.
	Clock Clock
	// TimeZones says which release of the time zone database windows are read
	// with. It goes into the record.
	TimeZones string
}

// Reconciler runs the passes of one instance, one after another, for one term.
type Reconciler struct {
	opts    Options
	state   *State       // as stored; nil when it has to be loaded
	term    rollout.Term // in which it leads; the zero Term before its first write
	backoff backoff
	fights  fights
	jobs    map[string]bool // of gates, that may still run
	looked  bool            // for Jobs that an earlier process has left
	relook  time.Time       // when that may be tried again

	evictions           *evictions
	drained, uncordoned recently[string] // by node; of the latter those that failed

	order *inventory.Order // of the last plan

	inForce     *Fleet                                    // the last that was; nil when none has been yet
	substitutes map[*unstructured.Unstructured]substitute // by rendered object
}

// NewReconciler returns a Reconciler that has seen nothing yet. All that its passes have
// begun ends with their context; see [Reconciler.Wait].
func NewReconciler(opts Options) *Reconciler {
	return &Reconciler{
		opts: opts, backoff: backoff{}, fights: fights{}, jobs: map[string]bool{}, evictions: newEvictions(opts.Cluster, opts.Now),
		drained: newRecently[string](lookAgain), uncordoned: newRecently[string](uncordonAgain),
	}
}

// Forget makes the next pass load the state again, as it must when somebody
// else may have written it.
func (r *Reconciler) Forget() { r.state = nil }
