// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Report is what one pass saw, decided and did.
type Report struct {
	Observation Observation
	Plan        Plan
	Outcomes    []inventory.Outcome
	// Attempts are the evictions of which it was learnt what has become of them. The
	// plan that decided on them may be an earlier one.
	Attempts []rollout.Attempt
	Drains   []rollout.Attempt // of decisions to drain
	// StillCordoned says which nodes could not be given back, and why; nil when
	// all could. The rest of the pass does not depend on it.
	StillCordoned error
	Jobs          []rollout.JobAttempt
	StopErr       error // why Jobs that nobody waits for could not be stopped; it is tried again
	// Before is the state as it was found, and After as it was left.
	Before, After State
	// Next is when the next pass is due if nothing moves before; zero if time
	// alone changes nothing.
	Next time.Time
}

// Pass brings the cluster one step closer to the fleet. It may be killed
// between any two of its steps: what is about to be done is recorded before it
// is done, and an entry is dropped only on proof.
func (r *Reconciler) Pass(ctx context.Context, src Source) (Report, error) {
	obs, err := r.Observe(ctx, src)
	if err != nil {
		return Report{}, fmt.Errorf("observe: %w", err)
	}
	obs.Supposed = false
	if err := r.lead(&obs); err != nil {
		return Report{Observation: obs}, err
	}
	attempts := r.catchUp(&obs)
	plan, now, err := r.decide(ctx, &obs)
	if err != nil {
		return Report{Observation: obs, Attempts: attempts}, fmt.Errorf("plan: %w", err)
	}
	report := Report{Observation: obs, Plan: plan, Attempts: attempts, Before: obs.State}
	report.After, err = r.record(ctx, obs, plan, src, now)
	if err != nil {
		return report, fmt.Errorf("record intent: %w", err)
	}
	if obs.inForce() {
		r.inForce = src.Fleet
	}
	r.ask(ctx, plan)
	r.act(ctx, &report)
	err = r.settle(ctx, &report, src)
	report.StopErr = r.stopJobs(ctx, report)
	report.Next = r.nextLook(report, now)
	return report, err
}

// uncordonAgain is how soon a node is to be given back that could not be.
const uncordonAgain = 10 * time.Second

// lookAgain is how soon the next pass is due while evictions are under way, after those
// that were not sent, and after deletions that were not done in time. What has come to
// nothing is not tried again before.
const lookAgain = time.Second

// nextLook is when the next pass is due after one.
func (r *Reconciler) nextLook(report Report, now time.Time) time.Time {
	next := earliest(now, report.Plan.NextLook, r.backoff.next(now), nextTrial(report.Observation, now), r.evictions.next(now),
		r.drained.next(now), r.uncordoned.next(now))
	if anyDeleting(report.Outcomes) {
		next = earliest(now, next, now.Add(lookAgain))
	}
	return next
}

func anyDeleting(outcomes []inventory.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o inventory.Outcome) bool { return o.Result == inventory.ResultDeleting })
}

// Inquire begins to find out what the next pass will have to know. It changes
// nothing.
func (r *Reconciler) Inquire(ctx context.Context, src Source) error {
	obs, err := r.Observe(ctx, src)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	plan, err := New(obs, r.opts.Now())
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	r.ask(ctx, plan)
	return nil
}

func (r *Reconciler) ask(ctx context.Context, plan Plan) {
	if r.opts.Asker != nil && len(plan.Rollout.Questions) > 0 {
		r.opts.Asker.Ask(ctx, plan.Rollout.Questions)
	}
}

// Observe does every read of a pass. A command that only shows what would be
// done observes and plans, and stops there.
func (r *Reconciler) Observe(ctx context.Context, src Source) (Observation, error) {
	state, err := r.load(ctx)
	if err != nil {
		return Observation{}, err
	}
	obs := Observation{Instance: r.opts.Instance, State: state, Fleet: src.Fleet, Order: r.order, AllowPrune: r.allowsPrune(src), Adoption: r.opts.Adoption, Drift: r.opts.Drift, ClockProblem: r.clockProblem()}
	if src.Fleet != nil {
		err = r.compare(ctx, &obs)
	} else {
		obs.Policies, err = recorded(state.Record, r.opts.Now())
	}
	if err != nil {
		return Observation{}, err
	}
	if obs.Supposed = r.opts.Asker == nil; !obs.Supposed {
		obs.Answers = r.opts.Asker.Answers()
	}
	obs.Nodes, obs.DaemonSets, obs.Pods = r.opts.Cluster.Snapshot() // last: it takes no time
	return obs, nil
}

// allowsPrune says whether the guards against a mass deletion are lifted.
func (r *Reconciler) allowsPrune(src Source) bool {
	return r.opts.AllowPrune || src.Fleet != nil && src.Fleet.Commit.Is(r.opts.AllowPruneOf)
}

// compare looks at the objects of a fleet, and at what is owned and not in it.
func (r *Reconciler) compare(ctx context.Context, obs *Observation) (err error) {
	obs.Policies = obs.Fleet.Policies
	objects := r.revertedFleet(ctx, obs)
	if err = r.inspect(ctx, obs, objects); err != nil {
		return err
	}
	if obs.Faults = faults(*obs, r.opts.Partial); len(obs.Faults) > 0 {
		if obs.Policies, err = recorded(obs.State.Record, r.opts.Now()); err != nil {
			return err
		}
		obs.InForce = r.inForce
		if back, some := r.goingBack(ctx, obs, objects); some {
			if err = r.inspect(ctx, obs, back); err != nil {
				return err
			}
		}
	}
	if obs.Orphans, err = r.opts.Cluster.Orphans(ctx, orphanIDs(obs.State.Inventory, obs.Changes)); err != nil {
		return err
	}
	if obs.Strays, err = r.strays(ctx); err != nil {
		return err
	}
	obs.Waiting = r.fights.due(obs.Changes, r.opts.Now())
	maps.Copy(obs.Waiting, r.backoff.due(obs.Changes, r.opts.Now()))
	return nil
}

func (r *Reconciler) inspect(ctx context.Context, obs *Observation, objects []*unstructured.Unstructured) (err error) {
	if obs.Changes, err = r.opts.Cluster.Inspect(ctx, objects); err != nil {
		return err
	}
	obs.Fleet.annotate(obs.Changes)
	obs.Changes = stillDeleted(obs.Changes, obs.State.Record, obs.Fleet.Commit)
	return nil
}

func (r *Reconciler) strays(ctx context.Context) ([]inventory.Live, error) {
	if r.opts.Strays == nil {
		return nil, nil
	}
	return r.opts.Strays.Strays(ctx)
}

// load reads the state once; after that, what was saved last is what is stored,
// or the next save says otherwise.
func (r *Reconciler) load(ctx context.Context) (State, error) {
	if r.state == nil {
		state, err := r.opts.Store.Load(ctx)
		if err != nil {
			return State{}, err
		}
		r.state = &state
	}
	return *r.state, nil
}

// save does nothing when nothing has changed, which is much sooner seen than a ledger
// is encoded. The state that is compared with is never changed: a plan is a new value.
func (r *Reconciler) save(ctx context.Context, s State) error {
	if r.state != nil && r.state.equals(s) {
		return nil
	}
	if err := r.opts.Store.Save(ctx, s); err != nil {
		r.state = nil
		return err
	}
	r.state = &s
	return nil
}

func orphanIDs(owned inventory.Set, changes []inventory.Change) []inventory.ID {
	rendered := make([]inventory.ID, 0, len(changes))
	for _, c := range changes {
		rendered = append(rendered, c.ID)
	}
	return owned.Without(rendered...).IDs()
}

// recorded reads the policies on record. They were valid when they came into
// force, so a problem now means that the record cannot be trusted.
func recorded(record Record, now time.Time) (policy.Set, error) {
	set, problems := policy.ParseRecorded(record.Documents, now)
	for _, p := range problems {
		if p.Level == policy.Error {
			return policy.Set{}, fmt.Errorf("policies on record: %s", p)
		}
	}
	return set, nil
}

// record saves what is about to be done, before any of it is.
func (r *Reconciler) record(ctx context.Context, obs Observation, plan Plan, src Source, now time.Time) (State, error) {
	intent := State{
		Inventory: plan.Objects.Next,
		Ledger:    plan.Rollout.Ledger,
		Record:    r.nextRecord(obs, plan, src, now),
	}
	if r.term.Number == 0 {
		if idle, err := isIdle(obs.State, intent, plan); idle || err != nil {
			return obs.State, err
		}
	}
	err := r.save(ctx, intent)
	if err == nil {
		r.term = intent.Ledger.Term
	}
	return intent, err
}

func (r *Reconciler) nextRecord(obs Observation, plan Plan, src Source, now time.Time) Record {
	next := obs.State.Record
	if obs.inForce() && (next.Commit.Hash != src.Fleet.Commit.Hash || next.Since.IsZero()) {
		next.Commit, next.Since = src.Fleet.Commit, now.UTC().Truncate(time.Second)
	}
	if obs.inForce() {
		next.Documents = src.Fleet.Policies.Documents()
		next.Objects = notes(plan.Objects)
		next.Guarded = plan.Objects.Guarded
	}
	next.Clock = ClockNote{Problem: obs.ClockProblem, TimeZones: r.opts.TimeZones}
	next.Problem = ""
	if err := cmp.Or(src.Err, obs.Refused()); err != nil {
		next.Problem = brief(err.Error())
	}
	return next
}

// act does what was decided: evictions first, since a window may shut while
// objects are applied, then applies and prunes. Each takes time, so what comes
// next is done only if nothing has come to forbid it. Nodes are given back before
// others are drained, which may be the same ones for another policy.
func (r *Reconciler) act(ctx context.Context, report *Report) {
	r.evict(ctx, report)
	report.StillCordoned = r.uncordon(ctx, report.Plan.Rollout)
	r.drain(ctx, report)
	r.runJobs(ctx, report)
	review := func(step []inventory.Decision) []inventory.Decision {
		return unvetoed(r.doubted(report.Observation), step, r.opts.Now())
	}
	if objects := report.Plan.Objects; objects.Touches() {
		report.Outcomes = r.opts.Cluster.Apply(ctx, objects.Steps, review)
		report.Observation.Fleet.redact(report.Outcomes)
		if len(troubles(objects, report.Outcomes)) == 0 { // what takes an orphan's place has to be there first
			pruned := r.opts.Cluster.Prune(ctx, objects.Prunes, review)
			report.Outcomes = append(report.Outcomes, pruned...)
		}
	}
	r.backoff.note(report.Plan.Objects, report.Outcomes, r.opts.Now())
	r.fights.note(report.Plan.Objects, report.Outcomes, r.opts.Now())
}

// settle saves what came of it. If this save is lost we track too much, which
// the next pass finds out.
func (r *Reconciler) settle(ctx context.Context, report *Report, src Source) error {
	settled, learnt := report.After, len(report.Outcomes) > 0
	attempts := r.evictions.learn()
	if len(attempts) > 0 {
		report.Attempts = append(report.Attempts, attempts...)
		var news bool
		settled.Ledger, news = learn(settled.Ledger, attempts, r.opts.Now())
		learnt = learnt || news
	}
	settled.Inventory = settled.Inventory.Settle(report.Outcomes)
	settled.Record.Objects = append(settled.Record.Objects, troubles(report.Plan.Objects, report.Outcomes)...)
	for _, a := range report.Drains {
		if a.Result == rollout.Refused {
			settled.Ledger, learnt = settled.Ledger.Refuse(a.Decision, a.Message, r.opts.Now()), true
			continue
		}
		settled.Ledger, learnt = settled.Ledger.Drained(a.Decision, a.Result == rollout.Drained, a.Message, r.opts.Now()), true
	}
	for _, a := range report.Jobs {
		if a.Err != nil {
			settled.Ledger, learnt = settled.Ledger.JobErrored(a.Job, a.Err.Error()), true
		}
	}
	if src.Answers.After(settled.Record.Answered) {
		settled.Record.Answered, learnt = src.Answers, true
	}
	if !learnt {
		return nil
	}
	report.After = settled
	if err := r.save(ctx, settled); err != nil {
		return fmt.Errorf("record outcomes: %w", err)
	}
	return nil
}
