// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// hosts are those that may be asked. None means that any may be.
type hosts []string

// hostName is a host as --allowed-hosts has it, with a port or without.
var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)

var defaultPorts = map[string]string{"https": "443", "http": "80", "ssh": "22"}

func (h hosts) validate() error {
	for _, name := range h {
		if !hostName.MatchString(name) {
			return fmt.Errorf("--allowed-hosts %q: write the host alone, like git.example.com or git.example.com:8443", name)
		}
	}
	return nil
}

// check says why a host must not be asked. One that is listed without a port
// may be asked at any.
func (h hosts) check(scheme, host string) error {
	if len(h) == 0 || scheme == "file" {
		return nil
	}
	asked := url.URL{Host: host}
	port := asked.Port()
	if port == "" {
		port = defaultPorts[scheme]
	}
	for _, name := range h {
		allowed := url.URL{Host: name}
		if strings.EqualFold(allowed.Hostname(), asked.Hostname()) && (allowed.Port() == "" || allowed.Port() == port) {
			return nil
		}
	}
	return fmt.Errorf("host %s is none of --allowed-hosts", host)
}

// guarded asks no host but those allowed, whoever named it: --git, a Secret, or
// a server that redirects.
type guarded struct {
	*http.Transport
	allowed hosts
}

func (g guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := g.allowed.check(request.URL.Scheme, request.URL.Host); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	return g.Transport.RoundTrip(request)
}
