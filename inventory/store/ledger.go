// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

func ledgerName(instance inventory.Instance) string { return instance.Name + "-ledger" }

// maxBytes is how much one ConfigMap may hold: the API server's limit is 1 MiB.
const maxBytes = 1<<20 - 4<<10

// legible is how long a ledger may be that is kept as it is, for people to read. A
// longer one is compressed, to less than a tenth: it is written before every eviction,
// and etcd keeps what was written for a while.
const legible = 32 << 10

// maxInflated bounds what a compressed value may grow to.
const maxInflated = 64 << 20

// Keys of the ledger's ConfigMap. A long ledger, and a record too large to be kept as
// it is, goes to the binary data, compressed, under its key and gzipSuffix.
const (
	ledgerKey  = "ledger.json"
	recordKey  = "record.json"
	gzipSuffix = ".gz"
)

// managedByLabel says on all ConfigMaps who writes them. They do not carry the
// instance's label: its watches would take every save for news.
const managedByLabel = "app.kubernetes.io/managed-by"

func encodeLedger(state State) (content, error) {
	c := content{
		labels: map[string]string{managedByLabel: inventory.FieldManager},
		data:   map[string]string{},
		binary: map[string][]byte{},
	}
	if !reflect.ValueOf(state.Ledger).IsZero() {
		if err := c.putLedger(state.Ledger); err != nil {
			return content{}, fmt.Errorf("key %s: %w", ledgerKey, err)
		}
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

func (c content) putLedger(ledger rollout.Ledger) error {
	text, err := ledger.MarshalJSON()
	if err != nil {
		return err
	}
	if len(text) > legible {
		return c.putCompressed(ledgerKey, text)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", " "); err != nil {
		return err
	}
	c.data[ledgerKey] = indented.String() + "\n"
	return nil
}

func decodeLedger(cm *corev1.ConfigMap, state *State) error {
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

// compressor is kept: it takes a megabyte, and a ledger is written before every eviction.
var compressor struct {
	sync.Mutex
	*gzip.Writer
}

// compress moves a value to the binary data.
func (c content) compress(key string) error {
	text, ok := c.data[key]
	if !ok {
		return nil
	}
	delete(c.data, key)
	return c.putCompressed(key, []byte(text))
}

// putCompressed puts a value into the binary data.
func (c content) putCompressed(key string, text []byte) (err error) {
	compressor.Lock()
	defer compressor.Unlock()
	var out bytes.Buffer
	if compressor.Writer == nil {
		if compressor.Writer, err = gzip.NewWriterLevel(&out, gzip.BestSpeed); err != nil {
			return err
		}
	}
	compressor.Reset(&out)
	if _, err := compressor.Write(text); err != nil {
		return err
	}
	if err := compressor.Close(); err != nil {
		return err
	}
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
