// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cli-utils/pkg/object"

	"lamplighter.dev/inventory"
)

// page is the part of a state that one ConfigMap holds.
type page struct {
	suffix string
	encode func(inventory.Instance, State) (content, error)
	decode func(*corev1.ConfigMap, inventory.Instance, *State) error
}

var (
	inventoryPage = page{"-inventory", encodeInventory, decodeInventory}
	ledgerPage    = page{"-ledger", encodeLedger, decodeLedger}
)

// pages are all parts, in the order in which they are saved.
var pages = []page{inventoryPage, ledgerPage}

func (p page) name(instance inventory.Instance) string { return instance.Name + p.suffix }

// maxBytes is how much one ConfigMap may hold: the API server's limit is 1 MiB.
const maxBytes = 1<<20 - 4<<10

// maxInflated bounds what a compressed value may grow to.
const maxInflated = 64 << 20

// Keys of the ledger's ConfigMap. A value too large to be kept as it is goes to
// the binary data, compressed, under its key and gzipSuffix.
const (
	ledgerKey  = "ledger.json"
	recordKey  = "record.json"
	gzipSuffix = ".gz"
)

// managedByLabel says on both ConfigMaps who writes them. They do not carry the
// instance's label: its watches would take every save for news.
const managedByLabel = "app.kubernetes.io/managed-by"

// encodeInventory writes cli-utils' format: one key for each object.
func encodeInventory(instance inventory.Instance, state State) (content, error) {
	c := content{
		labels: map[string]string{inventory.InventoryLabel: instance.ID(), managedByLabel: inventory.FieldManager},
		data:   map[string]string{},
	}
	for _, id := range state.Inventory.IDs() {
		if err := inventory.Storable(id); err != nil {
			return content{}, fmt.Errorf("%s: %w", inventory.Format(id), err)
		}
		c.data[id.String()] = ""
	}
	if size := c.size(); size > maxBytes {
		return content{}, fmt.Errorf("%d objects need %d bytes, a ConfigMap holds %d: split the instance", len(c.data), size, maxBytes)
	}
	return c, nil
}

// decodeInventory reads cli-utils' format. The values, in which cli-utils may
// keep a status, do not matter.
func decodeInventory(cm *corev1.ConfigMap, instance inventory.Instance, state *State) error {
	if owner := cm.Labels[inventory.InventoryLabel]; owner != instance.ID() {
		return fmt.Errorf("label %s is %q, not %q: it is not the inventory of this instance", inventory.InventoryLabel, owner, instance.ID())
	}
	ids := make([]inventory.ID, 0, len(cm.Data))
	for key := range cm.Data {
		id, err := object.ParseObjMetadata(key)
		if err != nil {
			return fmt.Errorf("key %s: not namespace_name_group_kind", key)
		}
		ids = append(ids, id)
	}
	state.Inventory = inventory.NewSet(ids...)
	return nil
}

func encodeLedger(_ inventory.Instance, state State) (content, error) {
	c := content{
		labels: map[string]string{managedByLabel: inventory.FieldManager},
		data:   map[string]string{},
		binary: map[string][]byte{},
	}
	if !reflect.ValueOf(state.Ledger).IsZero() {
		text, err := json.MarshalIndent(state.Ledger, "", " ")
		if err != nil {
			return content{}, fmt.Errorf("key %s: %w", ledgerKey, err)
		}
		c.data[ledgerKey] = string(text) + "\n"
	}
	if len(state.Record) > 0 {
		c.data[recordKey] = string(state.Record)
	}
	for _, key := range []string{ledgerKey, recordKey} {
		if c.size() <= maxBytes {
			break
		}
		if err := c.compress(key); err != nil {
			return content{}, fmt.Errorf("key %s: %w", key, err)
		}
	}
	if size := c.size(); size > maxBytes {
		return content{}, fmt.Errorf("key %s: needs %d bytes compressed, a ConfigMap holds %d", ledgerKey, size, maxBytes)
	}
	return c, nil
}

func decodeLedger(cm *corev1.ConfigMap, _ inventory.Instance, state *State) error {
	text, err := value(cm, ledgerKey)
	if err != nil {
		return fmt.Errorf("key %s: %w", ledgerKey, err)
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &state.Ledger); err != nil {
			return fmt.Errorf("key %s: %w", ledgerKey, err)
		}
	}
	record, err := value(cm, recordKey)
	if err != nil {
		return fmt.Errorf("key %s: %w", recordKey, err)
	}
	if len(record) > 0 && !json.Valid(record) {
		return fmt.Errorf("key %s: not JSON", recordKey)
	}
	state.Record = record
	return nil
}

// size is what the API server counts.
func (c content) size() int {
	size := 0
	for key, text := range c.data {
		size += len(key) + len(text)
	}
	for key, bytes := range c.binary {
		size += len(key) + len(bytes)
	}
	return size
}

// compress moves a value to the binary data.
func (c content) compress(key string) error {
	text, ok := c.data[key]
	if !ok {
		return nil
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	delete(c.data, key)
	c.binary[key+gzipSuffix] = out.Bytes()
	return nil
}

// value reads a value, compressed or not; nil if it is not there.
func value(cm *corev1.ConfigMap, key string) ([]byte, error) {
	if text, ok := cm.Data[key]; ok {
		return []byte(text), nil
	}
	compressed, ok := cm.BinaryData[key+gzipSuffix]
	if !ok {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err == nil && len(text) > maxInflated {
		err = fmt.Errorf("more than %d bytes uncompressed", maxInflated)
	}
	return text, err
}
