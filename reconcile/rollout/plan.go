// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which pod of which DaemonSet is evicted on which node
// now, and says for every node why nothing more happens and when to look again.
//
//	plan := rollout.New(observed, policies, now)
//	// record plan.Ledger, then evict where a decision's Action is Evict
//
// It is a function of what was observed, of the policies and of the instant: it
// reads no clock, talks to nobody and remembers nothing but the [Ledger] that it
// is given and gives back. The caller records that ledger before it acts, so an
// agent that dies in between, or a second leader, finds the visit and goes on
// with it. Its cost is linear in pods.
//
// Each leader begins a [Term] with [Ledger.Lead]. An eviction that is on record may
// be sent until a minute has passed since it was decided or, if that was in another
// term, since this one began. For so long its visit stays open, unless the leader of
// its own term knows that nothing has come of it: he alone can have sent it. A drain of
// an earlier term is in doubt for as long.
package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// Observed is the cluster at one instant, and what we remember of it. The order
// of the lists does not matter.
type Observed struct {
	Nodes      []health.Node
	DaemonSets []health.DaemonSet
	Pods       []*health.Pod
	// UnderWay are the pods of which an eviction has been sent without an answer yet, or
	// waits to be, by their UID, and those of which one was taken that are not seen to be
	// deleted yet. It is known only to the process that sends them.
	UnderWay map[types.UID]bool
	Queued   map[types.UID]bool // of those, the ones that wait to be sent
	Ledger   Ledger
	Commit   string // the one in force, written into visits
	Instance string // whose mark on nodes is ours; "" when none is
	// Rendered are digests of the pod templates that the commit in force has. A
	// DaemonSet of which that is not known has none.
	Rendered map[types.NamespacedName]string
	// ClockProblem says why the clock is not to be trusted; empty when it is.
	// Then no pod is evicted for a policy that has windows or freezes.
	ClockProblem string

	Answers Answers // to the questions of earlier plans
	// Supposed says that every answer would be yes, unless an objection is on
	// record, or there is another answer about Room. It is for those who look, and
	// must not evict.
	Supposed bool

	lengths map[string]lengths // by policy, if they are not to be measured
}

// A Plan is what to do now, and what to remember.
type Plan struct {
	// Decisions has exactly one for every node of every policy, by policy and
	// node. A policy's nodes are those on which one of its DaemonSets should
	// run or has a pod, and those that it visits.
	Decisions []Decision
	Policies  []PolicyStatus // by name
	Ledger    Ledger         // to be recorded before anything is evicted
	// Uncordons are nodes that we have cordoned and need no more, by name. It
	// waits for nothing.
	Uncordons []Uncordon
	// Jobs are to be created, unless they exist, by name.
	Jobs []Job
	// Questions are what has to be known before the next evictions, sorted. They
	// hold only what waits for them.
	Questions []Question
	// NextLook is the earliest instant at which time alone changes a decision;
	// zero when it never does.
	NextLook time.Time
}

// A Decision is about one node for one policy.
type Decision struct {
	*Ruling
	Node string
	Pod  *Eviction // set exactly when the Action is Evict, or Drain: then it comes later
}

// A Ruling is what is decided of a node. Many nodes share one, so it is not to be
// changed.
type Ruling struct {
	Policy    string
	Wave      string               // that the node is in; "" when the policy has no waves
	DaemonSet types.NamespacedName // the one it is about; the policy's first when all are settled
	State     health.State         // of the node for that DaemonSet
	Action    Action
	Reason    Reason
	Until     time.Time // when the reason may end by time alone; zero when that is not known
	Message   string
	Drain     *policy.Drain // how; set exactly when the Action is Drain
	// CordonedToo says that the node is drained also if it turns out that somebody
	// else has cordoned it.
	CordonedToo bool
}

// An Action is what a decision asks for.
type Action string

const (
	// Keep: nothing is to be done.
	Keep Action = "keep"
	// Wait: something is under way on the node.
	Wait Action = "wait"
	// Hold: something is to be done and must not be now.
	Hold Action = "hold"
	// Drain: the node is to be cordoned, and other pods evicted from it, before
	// the pod is.
	Drain Action = "drain"
	// Evict: the pod is to be evicted now.
	Evict Action = "evict"
)

// An Eviction names the pod to evict, with the preconditions that make a
// decision from an old observation harmless.
type Eviction struct {
	Name            types.NamespacedName
	UID             types.UID
	ResourceVersion string
	// SendBefore is when it is too late to send it: what becomes of it would be known too
	// late. Zero when the node is to be drained first.
	SendBefore time.Time
}

// PolicyStatus is one policy as a whole.
type PolicyStatus struct {
	Name       string
	DaemonSets []Counts // in the policy's order; those that exist
	Window     window.State
	Nodes      int // on which one of its DaemonSets should run, or may go on
	Remaining  int // nodes that are yet to be settled
	Blocked    int // of those, the ones that wait for somebody: held, not Ready, would not return

	Waves []WaveStatus // in order; none when the policy has none

	MaxUnavailable int // as a number of nodes; with waves, that of the first wave that is not done, or the policy's if that is more
	OutOfService   int // nodes that visits hold
	Halted         bool
	HaltMessage    string
	HaltEnds       string   // what lets it go on; "" when it is not halted
	Paused         *Pause   // nil when it is not
	Proceed        *Proceed // in force; nil when none is

	Estimate  time.Duration // of one visit, as far as it needs a window
	Verifying time.Duration // for what its Jobs take after that
	Unhalting string        // where failed nodes hold all slots before there are enough to halt; "" nowhere
	Never     string        // why it does not get to its end, whatever the windows; "" when it may
}

// Counts is one DaemonSet over its nodes, counted from pods.
type Counts struct {
	Name      types.NamespacedName
	Desired   int // nodes on which it should run
	Current   int // of those, the ones with a pod
	Ready     int // of those, the ones with a Ready pod
	UpToDate  int // nodes whose pod has the revision
	Available int // of those with a pod, the ones where it is available
	Failed    int
}
