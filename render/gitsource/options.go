// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"
)

const (
	defaultRef     = "main"
	defaultTimeout = time.Minute
)

// Options say where the commits come from.
type Options struct {
	// URL is an https, http, ssh or file URL, git's short form host:path, or
	// the path of a repository on this machine. It holds no credentials: they
	// would be shown in process lists.
	URL string
	// Ref is a branch, a tag, semver:RANGE, a full reference or the hash of a
	// commit; default main.
	Ref string
	// Timeout bounds one Fetch; default one minute.
	Timeout time.Duration

	// Auth is a folder of files with credentials, such as a mounted Secret.
	// They are read at each Fetch. Empty means none.
	Auth string
	// Proxy is the URL of an http, https or socks5 proxy. Empty means the one
	// that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name, for http alone.
	Proxy string
	// AllowedHosts are the hosts that may be asked, the one of URL, of a GitHub
	// App's API and where servers redirect to: each with its port, or without one
	// for any. A proxy is none of them. Empty allows all.
	AllowedHosts []string
	// Cache is a folder for the newest commit's objects. It may be emptied at
	// any time. Empty keeps them in memory.
	Cache string
	// Submodules fetches submodules too: those with a relative URL, which are on
	// the same host.
	Submodules bool
	// Limits bound what one commit may cost.
	Limits Limits
	// Now is the clock that tokens of a GitHub App are signed and expire by.
	// Nothing else needs it.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Ref == "" {
		o.Ref = defaultRef
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	o.Limits = o.Limits.withDefaults()
	return o
}

// Validate lists everything that is wrong. It does not look at the repository,
// and credentials may come later than their folder.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	at, err := parseURL(o.URL)
	if err != nil {
		errs = append(errs, err)
	}
	if err := o.allowed(at); err != nil {
		errs = append(errs, err)
	}
	if at.isName() && !isFolder(at.path) {
		problem("%s: is no URL, and there is no such folder: write it like https://git.example.com/fleet.git, git@git.example.com:fleet.git or ./fleet", at)
	}
	if _, err := parseRef(o.Ref); err != nil {
		errs = append(errs, err)
	}
	if o.Timeout < 0 {
		problem("timeout %s is negative", o.Timeout)
	}
	if o.Auth != "" {
		if at.scheme == "file" {
			problem("a repository on this machine takes no credentials")
		}
		if info, err := os.Stat(o.Auth); err != nil {
			problem("%s: there is no such folder with credentials", o.Auth)
		} else if !info.IsDir() {
			problem("%s: is a file: name the folder with the credentials", o.Auth)
		}
	}
	if o.Auth == "" && at.scheme == "ssh" {
		problem("%s: ssh needs a folder with the files identity and known_hosts", at)
	}
	if err := o.Limits.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := validateProxy(o.Proxy); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// allowed says why the host of an address must not be asked.
func (o Options) allowed(at address) error {
	if err := hosts(o.AllowedHosts).validate(); err != nil {
		return err
	}
	if at.scheme == "" {
		return nil // the URL cannot be read
	}
	return hosts(o.AllowedHosts).check(at.scheme, at.host)
}

func validateProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	switch {
	case err != nil:
		return errors.New("the URL of the proxy cannot be read") // err quotes it
	case u.User != nil:
		return fmt.Errorf("%s: the URL of the proxy holds credentials: set HTTPS_PROXY from a Secret instead", bare(u))
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" || u.Host == "":
		return fmt.Errorf("%s: is no http, https or socks5 URL of a proxy", bare(u))
	default:
		return nil
	}
}
