// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"

	"lamplighter.dev/reconcile/rollout"
)

// Leak is a pod that no visit made, of a revision that is being rolled out.
type Leak struct {
	Node     string `json:"node"`
	Revision string `json:"revision"`
	Cause    string `json:"cause"`
	Message  string `json:"message,omitempty"`
	Created  string `json:"created"`
}

func leaks(list []rollout.Leak) []Leak {
	var out []Leak
	for _, l := range list {
		out = append(out, Leak{Node: l.Node, Revision: l.Revision, Cause: string(l.Cause), Message: l.Message, Created: Time(l.Created)})
	}
	return out
}

// leakWords names the first few nodes.
func leakWords(list []Leak) string {
	const few = 3
	var words []string
	for _, l := range list[:min(len(list), few)] {
		words = append(words, l.Node+" ("+l.Cause+")")
	}
	if len(list) > few {
		words = append(words, fmt.Sprintf("%d more", len(list)-few))
	}
	return fmt.Sprintf("%s on %s without a visit: %s", countOf(len(list), "node"), list[0].Revision, strings.Join(words, ", "))
}
