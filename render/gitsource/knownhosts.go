// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/skeema/knownhosts"
)

var knownHostsLine = regexp.MustCompile(`knownhosts: .*:(\d+): `)

// readKnownHosts understands hashed hosts, ports, patterns, @cert-authority and
// @revoked.
func readKnownHosts(file string) (*knownhosts.HostKeyDB, error) {
	db, err := knownhosts.NewDB(file)
	if err == nil {
		return db, nil
	}
	if line := knownHostsLine.FindStringSubmatchIndex(err.Error()); line != nil {
		text := err.Error()
		return nil, fmt.Errorf("known_hosts, line %s: %s", text[line[2]:line[3]], strings.TrimPrefix(text[line[1]:], "knownhosts: "))
	}
	return nil, fmt.Errorf("known_hosts: %w", err)
}
