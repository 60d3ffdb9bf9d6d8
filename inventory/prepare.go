// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// serverFields are the metadata that only the API server may set.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "resourceVersion", "selfLink", "uid",
}

// Prepare returns a copy of a rendered object as it is sent: with the label and
// the annotations that say whose it is and what was sent, and without what is
// not ours to say
// (status, server-set metadata, metadata that is null). A Secret's stringData
// becomes data, because the API server forgets who owns a stringData key and
// would keep one that Git has dropped.
func Prepare(obj *unstructured.Unstructured, instance Instance) (*unstructured.Unstructured, error) {
	out := obj.DeepCopy()
	delete(out.Object, "status")
	dropServerFields(out.Object["metadata"])
	if template, found, err := unstructured.NestedMap(out.Object, "spec", "template"); found && err == nil {
		dropServerFields(template["metadata"])
		if err := unstructured.SetNestedMap(out.Object, template, "spec", "template"); err != nil {
			return nil, fmt.Errorf("%s: %w", Format(IDOf(obj)), err)
		}
	}
	if err := encodeStringData(out); err != nil {
		return nil, fmt.Errorf("%s: %w", Format(IDOf(obj)), err)
	}
	labels, annotations := out.GetLabels(), out.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[InstanceLabel] = instance.Name
	annotations[OwnerAnnotation] = instance.ID()
	delete(annotations, AppliedAnnotation)
	out.SetLabels(labels)
	out.SetAnnotations(annotations)
	hash, err := ContentHash(out)
	if err != nil {
		return nil, err
	}
	annotations[AppliedAnnotation] = hash[:appliedLength]
	out.SetAnnotations(annotations)
	return out, nil
}

// appliedLength is how many digits of a digest tell one content from another.
const appliedLength = 16

// dropServerFields removes server-set and null fields from object metadata.
func dropServerFields(metadata any) {
	fields, ok := metadata.(map[string]any)
	if !ok {
		return
	}
	for _, name := range serverFields {
		delete(fields, name)
	}
	for name, value := range fields {
		if value == nil {
			delete(fields, name)
		}
	}
}

// encodeStringData moves a Secret's stringData into data and checks the values,
// so that the API server need not answer with one of them. Its errors name
// keys, never values.
func encodeStringData(obj *unstructured.Unstructured) error {
	if gvk := obj.GroupVersionKind(); gvk.Group != "" || gvk.Kind != "Secret" {
		return nil
	}
	data, err := stringFields(obj, "data")
	if err != nil {
		return err
	}
	plain, err := stringFields(obj, "stringData")
	if err != nil {
		return err
	}
	for key, value := range data {
		if _, err := base64.StdEncoding.DecodeString(value.(string)); err != nil {
			return fmt.Errorf("data: the value of %q is not base64: use stringData for plain text", key)
		}
	}
	if plain == nil {
		return nil
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value.(string)))
	}
	delete(obj.Object, "stringData")
	obj.Object["data"] = data
	return nil
}

// stringFields returns a map field of an object, nil if it is not set. A null
// value reads as an empty string, as the API server has it.
func stringFields(obj *unstructured.Unstructured, field string) (map[string]any, error) {
	value, found := obj.Object[field]
	if !found || value == nil {
		return nil, nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: want a map of strings", field)
	}
	for key, value := range fields {
		switch value.(type) {
		case string:
		case nil:
			fields[key] = ""
		default:
			return nil, fmt.Errorf("%s: the value of %q is not a string: quote it", field, key)
		}
	}
	return fields, nil
}

// ContentHash is a digest of an object's content. Equal objects have equal
// hashes whatever the order of their fields.
func ContentHash(obj *unstructured.Unstructured) (string, error) {
	canonical, err := json.Marshal(obj.Object)
	if err != nil {
		return "", fmt.Errorf("%s: %w", Format(IDOf(obj)), err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
