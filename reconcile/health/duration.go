// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"time"
)

// shortDuration writes "10m" for what time.Duration writes as "10m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
