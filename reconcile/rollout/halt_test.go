// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// Whoever sees a halt sees what ends it.
func TestHaltSaysWhatEndsIt(t *testing.T) {
	for _, test := range []struct{ name, scene, want string }{
		{"all is well", "node a cni=old", ""},
		{"a node has failed", "node a cni=new(created=20m,unready)\nnode b cni=old\nfailure cni a cni new",
			"another version lets it go on, or lamplighter resume cni"},
		{"somebody has acknowledged that", "node a cni=new(created=20m,unready)\nnode b cni=old\nfailure cni a cni new acknowledged", ""},
		{"the new pod is not admitted", "node a cni=old\nobjection cni cni@new 1m",
			"the API server is asked again until it admits the pod, or another version lets it go on"},
	} {
		s := readScene(t, "policy cni cni\ndaemonset cni new\n"+test.scene)
		status := New(s.observed, s.policies, s.now).Policies[0]
		if status.Halted != (test.want != "") || status.HaltEnds != test.want {
			t.Errorf("%s: got %q, halted %t, want %q", test.name, status.HaltEnds, status.Halted, test.want)
		}
	}
}

// A node that has failed keeps its slot, whoever knows of it.
func TestKeptSlots(t *testing.T) {
	for _, test := range []struct{ name, scene, want string }{
		{"nothing has failed", "visit cni a cni:old>new(evicted=5m,replaced=4m)", ""},
		{"a visited node has", "visit cni a cni:old>new(evicted=20m,replaced=19m)\nfailure cni a cni new", "a"},
		{"and somebody knows it", "visit cni a cni:old>new(evicted=20m,replaced=19m)\nfailure cni a cni new acknowledged", "a"},
		{"it has recovered since, and the next DaemonSet is visited", "visit cni a cni:old>new(evicted=20m,settled=1m) csi:old>new(evicted=10s)\nfailure cni a cni new", ""},
		{"it is not visited", "failure cni a cni new", ""},
		{"it is visited for another version", "visit cni a cni:new>newer(evicted=10s)\nfailure cni a cni new", ""},
		{"a Job that came after the visit has failed", "visit cni a cni:old>new(evicted=20m,settled=10m)\nfailure cni a cni new gate=smoke", ""},
		{"another policy's node has", "visit log a log:old>new(evicted=20m,replaced=19m)\nfailure log a log new", ""},
	} {
		s := readScene(t, test.scene)
		got := ""
		for _, node := range s.observed.Ledger.KeptSlots("cni") {
			got += node
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
