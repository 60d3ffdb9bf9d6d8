// SPDX-License-Identifier: Apache-2.0

package show

import "lamplighter.dev/reconcile/rollout"

// Reverted says why a DaemonSet's template is not the one in Git.
type Reverted struct {
	Commit string `json:"commit,omitempty"` // that is marked bad
	From   string `json:"from"`             // its revision
	To     string `json:"to"`
	Reason string `json:"reason"`
	Since  string `json:"since"`

	text string
}

func reverted(r *rollout.Reversal) *Reverted {
	if r == nil {
		return nil
	}
	return &Reverted{Commit: r.Commit, From: r.From, To: r.To, Reason: r.Reason, Since: Time(r.Since), text: r.String()}
}
