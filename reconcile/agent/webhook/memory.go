// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// memorySpan is how long a payload is remembered. What is sent again later
	// costs one look that finds nothing new.
	memorySpan = 5 * time.Minute
	// memorySize bounds how many are.
	memorySize = 1024
)

type memoryKey [sha256.Size]byte

// memory knows the payloads of the last minutes.
type memory struct {
	mu    sync.Mutex
	until map[memoryKey]time.Time
	order []memoryKey // the oldest first
}

func newMemory() *memory { return &memory{until: map[memoryKey]time.Time{}} }

// first says whether a payload is new, and remembers it.
func (m *memory) first(key memoryKey, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.order) > 0 && (len(m.order) >= memorySize || !now.Before(m.until[m.order[0]])) {
		delete(m.until, m.order[0])
		m.order = m.order[1:]
	}
	if _, known := m.until[key]; known {
		return false
	}
	m.until[key] = now.Add(memorySpan)
	m.order = append(m.order, key)
	return true
}
