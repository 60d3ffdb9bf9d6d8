// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"lamplighter.dev/reconcile/policy"
)

// ledgerFields is a Ledger without its methods.
type ledgerFields Ledger

// storedLedger is a Ledger as it is kept. Many DaemonSets obey the same
// documents, and a calendar is long: each is kept once, under its digest.
type storedLedger struct {
	ledgerFields
	Governed map[string]storedGovernance `json:"governed,omitempty"`
	Rules    map[string]policy.Document  `json:"rules,omitempty"`
}

// storedGovernance names its documents by their digests. One that was written
// before there were any holds the documents themselves.
type storedGovernance struct {
	Governance
	Rules []string `json:"rules,omitempty"`
}

// MarshalJSON keeps each document that governs a DaemonSet once.
func (l Ledger) MarshalJSON() ([]byte, error) {
	stored := storedLedger{ledgerFields: ledgerFields(l)}
	digests := map[*policy.Document][]string{} // by the first of a list that several share
	for _, name := range slices.Sorted(maps.Keys(l.Governed)) {
		g := storedGovernance{Governance: l.Governed[name]}
		if docs := g.Documents; len(docs) > 0 {
			if _, known := digests[&docs[0]]; !known {
				list, err := stored.keep(docs)
				if err != nil {
					return nil, err
				}
				digests[&docs[0]] = list
			}
			g.Documents, g.Rules = nil, digests[&docs[0]]
		}
		if stored.Governed == nil {
			stored.Governed = map[string]storedGovernance{}
		}
		stored.Governed[name] = g
	}
	return json.Marshal(stored)
}

// keep adds documents to those that are kept, and gives their digests.
func (s *storedLedger) keep(docs []policy.Document) ([]string, error) {
	var digests []string
	for _, d := range docs {
		text, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		const enough = 16 // bytes, so that no two documents have the same
		digest := hex.EncodeToString(sum[:enough])
		if s.Rules == nil {
			s.Rules = map[string]policy.Document{}
		}
		s.Rules[digest] = d
		digests = append(digests, digest)
	}
	return digests, nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and ledgers in which every
// DaemonSet has documents of its own.
func (l *Ledger) UnmarshalJSON(data []byte) error {
	stored := storedLedger{ledgerFields: ledgerFields(*l)}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*l = Ledger(stored.ledgerFields)
	if stored.Governed == nil {
		return nil
	}
	l.Governed = make(map[string]Governance, len(stored.Governed))
	for name, g := range stored.Governed {
		if len(g.Rules) > 0 {
			g.Documents = stored.documents(g.Rules)
		}
		l.Governed[name] = g.Governance
	}
	return nil
}

// documents are those with the given digests. If one is missing they are none:
// half of the rules might allow what the other half forbids.
func (s storedLedger) documents(digests []string) []policy.Document {
	list := make([]policy.Document, 0, len(digests))
	for _, digest := range digests {
		d, ok := s.Rules[digest]
		if !ok {
			return nil
		}
		list = append(list, d)
	}
	return list
}
