// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/pflag"

	"lamplighter.dev/inventory"
)

// adoption is a flag that names a policy of adoption.
type adoption struct{ policy *inventory.Adoption }

func adoptionVar(flags *pflag.FlagSet, policy *inventory.Adoption) {
	*policy = inventory.AdoptUnowned
	flags.Var(adoption{policy}, "inventory-policy", "which objects that exist already become ours: strict for none, adopt for those of no inventory, force-adopt for those of others too")
}

func (a adoption) String() string {
	if a.policy == nil {
		return ""
	}
	return string(*a.policy)
}

func (a adoption) Set(s string) (err error) {
	*a.policy, err = inventory.ParseAdoption(s)
	return err
}

func (a adoption) Type() string { return "string" }
