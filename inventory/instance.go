// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/hex"
)

// Names that we write on objects, and those of cli-utils that we honour.
const (
	// FieldManager is the name under which all fields are applied.
	FieldManager = "lamplighter"

	// InstanceLabel is on every object we apply; its value is the instance's
	// name. Watches select by it.
	InstanceLabel = "lamplighter.dev/instance"

	// AppliedAnnotation is on every object we apply; its value is a digest of what
	// Git said then. A live object that carries the digest of what Git says, and
	// still differs, was changed by somebody.
	AppliedAnnotation = "lamplighter.dev/applied"

	// OwnerAnnotation names the inventory that owns an object.
	OwnerAnnotation = "config.k8s.io/owning-inventory"

	// InventoryLabel is on the ConfigMap that holds an inventory; its value is
	// the inventory's ID.
	InventoryLabel = "cli-utils.sigs.k8s.io/inventory-id"

	// DependsOnAnnotation lists the objects that must be applied before.
	DependsOnAnnotation = "config.kubernetes.io/depends-on"

	// DeletionAnnotation with the value "detach" keeps an object that is no
	// longer in Git, and so does OnRemoveAnnotation with the value "keep".
	DeletionAnnotation = "client.lifecycle.config.k8s.io/deletion"
	OnRemoveAnnotation = "cli-utils.sigs.k8s.io/on-remove"

	// RecreateAnnotation with the value "true" lets an object be deleted and
	// created anew when Git changes a field that cannot be changed in place.
	RecreateAnnotation = "lamplighter.dev/recreate"
)

// Instance names one agent, or CLI user, that owns one set of objects.
type Instance struct {
	// Namespace is where the instance keeps its inventory.
	Namespace string
	// Name is the value of [InstanceLabel].
	Name string
}

// maxLabelValue is the longest value that a label accepts.
const maxLabelValue = 63

// ID is the value of [OwnerAnnotation] and [InventoryLabel]. Two instances of
// the same name in different namespaces have different IDs.
func (i Instance) ID() string {
	id := i.Namespace + "." + i.Name
	if len(id) <= maxLabelValue {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return id[:maxLabelValue-17] + "-" + hex.EncodeToString(sum[:8])
}

// StaysOnRemoval reports whether annotations ask for the object to stay in the
// cluster when it is no longer in Git.
func StaysOnRemoval(annotations map[string]string) bool {
	return annotations[DeletionAnnotation] == "detach" || annotations[OnRemoveAnnotation] == "keep"
}
