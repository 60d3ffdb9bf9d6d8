// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/check"
)

// TestExampleFleetIsChecked: what people begin with follows the advice, but for
// infos.
func TestExampleFleetIsChecked(t *testing.T) {
	code, stdout, stderr := runCommand(t, "check", filepath.Join(repository, "examples", "fleet"), "--path", "clusters/demo", "-o", "json")
	var answer show.Checked
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != 0 || stderr != "" {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	for _, f := range answer.Findings {
		if f.Level != check.Info {
			t.Errorf("%s %s: %s: %s: %s", f.Level, f.ID, f.Object, f.Field, f.Message)
		}
	}
	if len(answer.Findings) == 0 || answer.Infos != len(answer.Findings) {
		t.Errorf("%d infos are counted, and %d findings listed: images in the example have no digests", answer.Infos, len(answer.Findings))
	}
}
