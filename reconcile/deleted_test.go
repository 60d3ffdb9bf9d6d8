// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"lamplighter.dev/inventory"
)

// A process that starts knows of what was deleted before only what is on record.
func TestDeletedObjectStaysSoIfTheRecordSaysThatItIsReported(t *testing.T) {
	deleted := ObjectNote{Object: inventory.Format(configMap("a")), Action: string(inventory.Hold), Reason: string(inventory.Drifted)}
	failed := ObjectNote{Object: deleted.Object, Action: string(inventory.Hold), Reason: string(inventory.Failing)}
	commit, other := Commit{Hash: "1111"}, Commit{Hash: "2222"}
	for _, tc := range []struct {
		name   string
		note   ObjectNote
		record Commit
		fleet  Commit
		want   bool
	}{
		{"reported, same commit", deleted, commit, commit, true},
		{"failed, same commit", failed, commit, commit, false},
		{"reported, another commit", deleted, other, commit, false},
		{"reported, from working trees", deleted, Commit{}, Commit{}, false},
		{"another object", ObjectNote{Object: "ConfigMap/ns/b", Action: deleted.Action, Reason: deleted.Reason}, commit, commit, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			record := Record{Commit: tc.record, Objects: []ObjectNote{tc.note}}
			changes := stillDeleted([]inventory.Change{created(configMap("a"))}, record, tc.fleet)
			if got := changes[0].Drifted; got != tc.want {
				t.Errorf("got drifted %t, want %t", got, tc.want)
			}
		})
	}
}

// Without a commit, the notes say of which DaemonSets the template may be another
// than in Git.
func TestNoteAboutATemplate(t *testing.T) {
	for _, tc := range []struct {
		note ObjectNote
		want bool
	}{
		{ObjectNote{Reason: "WindowShut"}, true},
		{ObjectNote{Reason: "Reverted"}, false},
		{ObjectNote{Reason: "Drifted"}, true},
		{ObjectNote{Reason: "Drifted", Fields: []string{".metadata.labels.team"}}, false},
		{ObjectNote{Reason: "Drifted", Fields: []string{".metadata.labels.team", ".spec.template.spec.hostNetwork"}}, true},
	} {
		if got := tc.note.aboutTemplate(); got != tc.want {
			t.Errorf("%s %v: got %t, want %t", tc.note.Reason, tc.note.Fields, got, tc.want)
		}
	}
}
