// SPDX-License-Identifier: Apache-2.0

// Package check answers what is wrong with a fleet, and what is known to go
// wrong later with agents that run on every node. It reads rendered objects
// alone: no cluster is asked, and what the policies say of themselves is taken
// as it is. Every finding is of a check in [All], which docs/checks.md explains.
//
//	report := check.Run(check.Fleet{Objects: objects, Set: set, Problems: problems})
package check

import (
	"cmp"
	"slices"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/render"
)

// Level is how bad a finding is.
type Level string

const (
	// Error: the agent or Kubernetes refuses it, or upgrades cannot work.
	Error Level = "error"
	// Warning: it works, until the day on which somebody is surprised.
	Warning Level = "warning"
	// Info: worth a look, and often meant.
	Info Level = "info"
)

// Finding is one thing about one field of one object.
type Finding struct {
	ID    ID    `json:"id"`
	Level Level `json:"level"`
	// File is relative to the root of the tree; empty when not known.
	File string `json:"file,omitempty"`
	// Line is where in File the object begins, or what is wrong is; 0 when not known.
	Line int `json:"line,omitempty"`
	// Object is "Kind/name" or "Kind/namespace/name"; empty for a whole file.
	Object string `json:"object,omitempty"`
	// Field is a path such as "spec.updateStrategy.type"; empty for the object.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Remedy is what to do.
	Remedy string `json:"remedy"`
}

// Report is every finding, sorted by file, object, field and id.
type Report struct {
	Findings []Finding
	// Ignored is how many more there are that annotations silence.
	Ignored int
}

// Fleet is what is looked at.
type Fleet struct {
	// Objects are those for the cluster, Policies those of the policy kinds.
	Objects, Policies []render.Object
	// Set and Problems are what policy.Parse says of them. With an Error among
	// the problems nobody knows which policy governs what, so that checks of
	// visits are left out.
	Set      policy.Set
	Problems []policy.Problem
}

// Run checks a fleet.
func Run(f Fleet) Report {
	r := &report{}
	r.policies(f.Problems)
	r.ignoreNames(f)
	objects := r.decode(f.Objects)
	agents := agentsOf(objects, f)
	for _, a := range agents {
		r.template(a)
		r.containers(a)
		r.placement(a)
		r.references(a, f.Objects)
		r.visit(a)
	}
	r.configs(agents, f.Objects)
	r.hostPorts(agents)
	r.budgets(agents, objects)
	r.upgradePolicies(agents, f)
	return r.without(ignored(f))
}

// report collects findings.
type report struct{ findings []Finding }

// without is the sorted report, less what annotations silence.
func (r *report) without(ignored map[string][]ID) Report {
	out := Report{Findings: []Finding{}}
	slices.SortFunc(r.findings, compareFindings)
	for _, f := range slices.Compact(r.findings) {
		if !catalogue[f.ID].Binding && slices.Contains(ignored[f.Object], f.ID) {
			out.Ignored++
			continue
		}
		out.Findings = append(out.Findings, f)
	}
	return out
}

func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(a.File, b.File),
		cmp.Compare(a.Object, b.Object),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.ID, b.ID),
		cmp.Compare(a.Message, b.Message),
	)
}
