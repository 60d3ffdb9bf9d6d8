// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"maps"
	"slices"
)

type waveKey struct{ policy, wave string }

// settled is what is on record of a wave for the revisions; zero if nothing is.
func (b *book) settled(key waveKey, w *wave, revisions map[string]string) SettledWave {
	for _, r := range b.ledger.Waves {
		if r.Policy == key.policy && r.Wave == key.wave && r.Nodes == w.selector() && maps.Equal(r.Revisions, revisions) {
			return r
		}
	}
	return SettledWave{}
}

// settledWaves are those of the policies that there are.
func (b *book) settledWaves() []SettledWave {
	var out []SettledWave
	for _, r := range b.waves {
		out = append(out, r)
	}
	slices.SortFunc(out, func(x, y SettledWave) int {
		return cmp.Or(cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Wave, y.Wave))
	})
	return out
}

func (w *wave) selector() string {
	if w.Selector == nil {
		return ""
	}
	return w.Selector.String()
}
