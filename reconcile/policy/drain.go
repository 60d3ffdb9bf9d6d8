// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// Drain says how a node is emptied before its first eviction of a visit: it is
// cordoned, its other pods are evicted, and after the visit it is uncordoned.
// Pods of DaemonSets and static pods stay.
type Drain struct {
	// Timeout bounds it. A node that is not empty by then is given back.
	Timeout time.Duration
	// PodSelector is a label selector; only pods that it selects are evicted.
	// Empty is all.
	PodSelector string
	// DeleteEmptyDirData lets pods go whose emptyDir volumes are lost with them.
	DeleteEmptyDirData bool
	// Force lets pods go that nobody would create again.
	Force bool
}

// readDrain reads how nodes are drained; nil if they are not.
func readDrain(s *fields) *Drain {
	f := s.object("drain")
	if f == nil {
		return nil
	}
	enabled, set := f.flag("enabled")
	d := &Drain{Timeout: f.duration("timeout", 10*time.Minute)}
	if selector, ok := readSelector(f, "podSelector"); ok && selector != nil {
		d.PodSelector = selector.String()
	}
	d.DeleteEmptyDirData, _ = f.flag("deleteEmptyDirData")
	d.Force, _ = f.flag("force")
	f.done()
	if set && !enabled {
		return nil
	}
	return d
}
