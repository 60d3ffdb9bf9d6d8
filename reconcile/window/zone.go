// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxZoneName is longer than any name in the IANA database.
const maxZoneName = 64

// parseZone loads an IANA zone. Names that mean something else on another
// machine (Local) or in another country (EST) are refused.
func parseZone(name string) (*time.Location, error) {
	switch {
	case name == "":
		return nil, errors.New(`is required: an IANA name such as Europe/Berlin, or UTC`)
	case name == "UTC":
		return time.UTC, nil
	case strings.EqualFold(name, "local"):
		return nil, fmt.Errorf("%q is another zone on every machine: write the IANA name, such as Europe/Berlin", name)
	case len(name) > maxZoneName || strings.IndexFunc(name, notInZoneName) >= 0:
		return nil, fmt.Errorf("%q is not an IANA name: write one such as Europe/Berlin, or UTC", clip(name))
	case oldZones[name] != "":
		return nil, fmt.Errorf("%q is an old name that not every system knows: write %s", name, oldZones[name])
	case !strings.Contains(name, "/"):
		return nil, fmt.Errorf("%q is an abbreviation: write the IANA name of the place, such as Europe/Berlin, or UTC", name)
	case strings.HasPrefix(name, "posix/"), strings.HasPrefix(name, "right/"):
		return nil, fmt.Errorf("%q is a name of one machine's files: write %q", name, name[len("posix/"):])
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not known: write an IANA name such as Europe/Berlin, in its upper and lower case", name)
	}
	return loc, nil
}

func notInZoneName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("_+-/", r)
}

// clip shortens what somebody wrote to what fits in a message.
func clip(s string) string {
	const longest = 80
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}
