// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The time zone database in the binary is that of the Go release it was built
// with, which does not say which one that is.
const (
	embeddedTimeZones = "2025c"
	embeddedBy        = "go1.26.8"
)

// zoneFolders are where package time looks for time zones before it takes those
// in the binary.
var zoneFolders = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// TimeZones is the release of the IANA time zone database that windows are read
// with, and where it is from.
func TimeZones() string {
	return timeZones(os.Getenv("ZONEINFO"), zoneFolders, runtime.Version())
}

func timeZones(zoneInfo string, folders []string, goVersion string) string {
	if zoneInfo != "" {
		folders = append([]string{zoneInfo}, folders...)
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "Europe", "Berlin")); err == nil {
			return releaseIn(folder) + " (" + folder + ")"
		}
		if info, err := os.Stat(folder); err == nil && info.Mode().IsRegular() { // a zip of them
			return "unknown release (" + folder + ")"
		}
	}
	if goVersion != embeddedBy {
		return "release of " + goVersion + " (in the binary)"
	}
	return embeddedTimeZones + " (in the binary)"
}

// releaseIn is what a folder of zone files says of itself, as the tz project and
// the BSDs write it.
func releaseIn(folder string) string {
	if text, err := os.ReadFile(filepath.Join(folder, "+VERSION")); err == nil {
		return strings.TrimSpace(string(text))
	}
	file, err := os.Open(filepath.Join(folder, "tzdata.zi"))
	if err != nil {
		return "unknown release"
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadString('\n')
	if release, ok := strings.CutPrefix(line, "# version "); ok && err == nil {
		return strings.TrimSpace(release)
	}
	return "unknown release"
}
