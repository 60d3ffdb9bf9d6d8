// SPDX-License-Identifier: Apache-2.0

package inventory

import "fmt"

// Adoption says which objects that exist already may become ours. The names are
// those that users of cli-utils and kpt give to its inventory policies. The zero
// value is AdoptUnowned.
type Adoption string

// The policies of adoption.
const (
	AdoptNone    Adoption = "strict"      // none: MustMatch
	AdoptUnowned Adoption = "adopt"       // those that belong to no inventory: AdoptIfNoInventory
	AdoptAll     Adoption = "force-adopt" // those of other inventories, too: AdoptAll
)

// ParseAdoption reads the name of a policy.
func ParseAdoption(s string) (Adoption, error) {
	switch a := Adoption(s); a {
	case AdoptNone, AdoptUnowned, AdoptAll:
		return a, nil
	}
	return "", fmt.Errorf("%q: use %s, %s or %s", s, AdoptNone, AdoptUnowned, AdoptAll)
}

// Allows reports whether an object that exists, and whose owning inventory is
// owner or none if that is empty, may be applied by us.
func (a Adoption) Allows(owner string, us Instance) bool {
	switch {
	case owner == us.ID():
		return true
	case owner == "":
		return a != AdoptNone
	}
	return a == AdoptAll
}

// notAdopted is the decision about an object that exists and is not to be ours.
func notAdopted(owner string) Decision {
	if owner == "" {
		return refuse(NotOwned, "it exists already and belongs to no inventory: --inventory-policy adopt takes it over")
	}
	return refuse(NotOwned, "owned by inventory "+owner)
}
