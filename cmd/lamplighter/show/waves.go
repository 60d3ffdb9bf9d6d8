// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"

	"lamplighter.dev/reconcile/rollout"
)

// WaveStatus is one wave of a policy.
type WaveStatus struct {
	Name           string `json:"name"`
	State          string `json:"state"` // active, soaking, blocked, done or waiting
	Nodes          int    `json:"nodes"`
	Settled        int    `json:"settled"`
	Blocked        int    `json:"blocked"` // nodes that wait for somebody, and are not waited for
	MaxUnavailable int    `json:"maxUnavailable"`
	OutOfService   int    `json:"outOfService"`
	SoakUntil      string `json:"soakUntil,omitempty"`
	Message        string `json:"message,omitempty"` // what the next wave waits for
}

func waveStatuses(waves []rollout.WaveStatus) []WaveStatus {
	var out []WaveStatus
	for _, w := range waves {
		s := WaveStatus{
			Name: w.Name, State: string(w.State), Nodes: w.Nodes, Settled: w.Settled, Blocked: w.Blocked,
			MaxUnavailable: w.MaxUnavailable, OutOfService: w.OutOfService, Message: w.Message,
		}
		if !w.SoakUntil.IsZero() {
			s.SoakUntil = Time(w.SoakUntil)
		}
		out = append(out, s)
	}
	return out
}

// writeWaves writes a row for every wave of every policy that has waves and has
// not come to its end.
func writeWaves(w io.Writer, policies []PolicyStatus) error {
	var rows [][]any
	for _, p := range policies {
		if p.Remaining == 0 {
			continue
		}
		for _, wave := range p.Waves {
			rows = append(rows, []any{p.Name, wave.Name, wave.State, wave.Nodes, wave.Settled, wave.Blocked, dash(wave.SoakUntil), dash(wave.Message)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return table(w, []any{"POLICY", "WAVE", "STATE", "NODES", "SETTLED", "BLOCKED", "SOAKS UNTIL", "MESSAGE"}, rows)
}
