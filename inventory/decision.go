// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Action is what a decision asks for.
type Action string

// The actions. Only Apply, Recreate, Prune and Release change anything.
const (
	Apply    Action = "Apply"    // send the object
	Recreate Action = "Recreate" // delete the object and send it when it is gone
	Keep     Action = "Keep"     // it is as it should be
	Hold     Action = "Hold"     // not now; the reason says what has to happen first
	Refuse   Action = "Refuse"   // not until a person changes something
	Prune    Action = "Prune"    // delete the object
	Release  Action = "Release"  // drop it from the inventory, leave the object
)

// Sends reports whether what is rendered is sent to the API server.
func (a Action) Sends() bool { return a == Apply || a == Recreate }

// Acts reports whether an object in the cluster is changed or deleted, for other
// than to let it go.
func (a Action) Acts() bool { return a.Sends() || a == Prune }

// Reason says why. It is one of the constants below, or the reason of the
// [Veto] that the caller gave.
type Reason string

// Why an object is applied or kept.
const (
	Created   Reason = "Created"   // it does not exist yet
	Changed   Reason = "Changed"   // Git says something else than the cluster
	Drifted   Reason = "Drifted"   // somebody changed it since it was applied; held if drift is only reported
	Adopted   Reason = "Adopted"   // it exists, belongs to no inventory, and becomes ours
	Immutable Reason = "Immutable" // Git changes a field that cannot be changed in place
	Unchanged Reason = "Unchanged" // applying it would change nothing
)

// Why an object is held.
const (
	Held               Reason = "Held"               // the caller holds it and gave no reason of its own
	Terminating        Reason = "Terminating"        // it is being deleted
	WaitsForDependency Reason = "WaitsForDependency" // what it depends on, or what depends on it, stays as it is
	InUse              Reason = "InUse"              // prune guard: a pod or a template still references it
	Reverted           Reason = "Reverted"           // it is as it was before what Git says turned out to be bad
	ApplyFirst         Reason = "ApplyFirst"         // something that is rendered cannot be applied, so nothing is pruned
	CommitRefused      Reason = "CommitRefused"      // something else of the commit cannot be applied, so none of it is
	Failing            Reason = "Failing"            // it failed, and is not tried again yet
	Fighting           Reason = "Fighting"           // somebody undoes each correction; it is corrected less and less often
	EmptyRender        Reason = "EmptyRender"        // nothing is rendered, so nothing is pruned
	MassDelete         Reason = "MassDelete"         // the commit drops more than half of the objects
	NamespaceNotEmpty  Reason = "NamespaceNotEmpty"  // the namespace holds objects that would go with it
	KindInUse          Reason = "KindInUse"          // objects of the kind that the definition defines would go with it
	Untracked          Reason = "Untracked"          // it carries our marks, and neither Git nor the inventory has it
	Unknown            Reason = "Unknown"            // the live object could not be read or compared
)

// Why an object is refused.
const (
	NotOwned      Reason = "NotOwned"      // another inventory owns it
	Conflict      Reason = "Conflict"      // another field manager holds a field that we would set
	Rejected      Reason = "Rejected"      // the API server refuses it
	BadDependency Reason = "BadDependency" // its depends-on annotation cannot be followed
	BadName       Reason = "BadName"       // the inventory cannot hold its name
)

// Why an object leaves the inventory. NotOwned is a reason here too and, when
// the instance ends, so is why an object would be held for ever.
const (
	Orphaned Reason = "Orphaned" // it is no longer in Git
	Detached Reason = "Detached" // an annotation asks to keep it
	Gone     Reason = "Gone"     // it does not exist any more
	Moved    Reason = "Moved"    // Git has it under another API group
)

// Veto is the caller's reason to leave an object as it is for now. It holds
// creations, changes and deletions; what is unchanged stays Keep.
type Veto struct {
	Reason  Reason    // from the caller's own closed set; Held if empty
	Until   time.Time // when it ends, zero if that is not known
	Message string
}

// Decision is what is to be done with one object, and why.
type Decision struct {
	ID      ID
	Action  Action
	Reason  Reason
	Until   time.Time // when a hold ends, zero if that is not known
	Message string    // what the reason does not say; may be empty

	// Drifted, Manager and Fields are what [Change] says of drift, whatever the
	// reason.
	Drifted bool
	Manager string
	Fields  []string

	// Source is where Git has the object; zero for orphans.
	Source Source
	// Object is what is sent. It is nil for orphans.
	Object *unstructured.Unstructured
	// UID is the object that is pruned, released or re-created: a new one of the
	// same name is left alone.
	UID types.UID
	// After lists the objects of the same plan without which this one cannot be
	// done, sorted: for one that is applied, what its annotation depends on and
	// a namespace or definition that is yet to be created; for one that is
	// pruned, what depends on it.
	After []ID
}

// Result is how carrying out a decision ended.
type Result string

// The results. An object leaves the inventory by ResultPruned and
// ResultReleased alone.
const (
	ResultCreated    Result = "Created"
	ResultConfigured Result = "Configured"
	ResultRecreated  Result = "Recreated" // deleted and created anew
	ResultUnchanged  Result = "Unchanged"
	ResultPruned     Result = "Pruned"   // its deletion is confirmed
	ResultDeleting   Result = "Deleting" // its deletion is asked for and not confirmed
	ResultReleased   Result = "Released" // left in the cluster, or gone before
	ResultHeld       Result = "Held"     // the decision was to wait
	ResultConflict   Result = "Conflict" // another field manager holds a field
	ResultRefused    Result = "Refused"  // by the decision or by the API server
	ResultSkipped    Result = "Skipped"  // what has to be done before it was not done
	ResultFailed     Result = "Failed"
)

// Outcome is what became of one decision.
type Outcome struct {
	ID     ID
	Result Result
	Err    error         // why, for Deleting, Conflict, Refused, Skipped and Failed
	Took   time.Duration // time spent on this object
	// RetryAfter is how long the API server asked to be left alone; zero if it did
	// not.
	RetryAfter time.Duration
}
