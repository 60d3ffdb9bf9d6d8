// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// The release that the constants name is the one that this Go release brings.
func TestEmbeddedTimeZonesAreThoseOfTheToolchain(t *testing.T) {
	if runtime.Version() != embeddedBy {
		t.Fatalf("this is %s: set embeddedBy, and embeddedTimeZones to what its lib/time/update.bash says", runtime.Version())
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	data := regexp.MustCompile(`(?m)^DATA=(\S+)$`).FindSubmatch(script)
	if data == nil || string(data[1]) != embeddedTimeZones {
		t.Errorf("%s embeds %q, not %s", embeddedBy, data, embeddedTimeZones)
	}
}

func TestTimeZones(t *testing.T) {
	folder := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	const berlin = "Europe/Berlin"
	debian := folder(map[string]string{berlin: "", "tzdata.zi": "# version 2026a\nR x\n"})
	bsd := folder(map[string]string{berlin: "", "+VERSION": "2026b\n"})
	silent := folder(map[string]string{berlin: "", "tzdata.zi": "R x\n"})
	empty := folder(nil)
	zip := filepath.Join(folder(map[string]string{"zoneinfo.zip": ""}), "zoneinfo.zip")
	for name, test := range map[string]struct {
		zoneInfo string
		folders  []string
		version  string
		want     string
	}{
		"in the binary":          {"", []string{empty, "/nowhere"}, embeddedBy, "2025c (in the binary)"},
		"of another Go release":  {"", nil, "go1.99.1", "release of go1.99.1 (in the binary)"},
		"the system's":           {"", []string{empty, debian, bsd}, embeddedBy, "2026a (" + debian + ")"},
		"a BSD's":                {"", []string{bsd}, embeddedBy, "2026b (" + bsd + ")"},
		"that does not say":      {"", []string{silent, bsd}, embeddedBy, "unknown release (" + silent + ")"},
		"ZONEINFO before others": {bsd, []string{debian}, embeddedBy, "2026b (" + bsd + ")"},
		"ZONEINFO without zones": {empty, []string{debian}, embeddedBy, "2026a (" + debian + ")"},
		"ZONEINFO names a zip":   {zip, []string{debian}, embeddedBy, "unknown release (" + zip + ")"},
		"ZONEINFO names nothing": {"/nowhere", nil, embeddedBy, "2025c (in the binary)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := timeZones(test.zoneInfo, test.folders, test.version); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
