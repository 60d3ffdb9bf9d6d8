// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	defaultRef     = "main"
	defaultTimeout = time.Minute
)

// Options say where the commits come from.
type Options struct {
	// URL is an https, http or file URL, or the path of a repository on this
	// machine. It holds no credentials: they would be shown in process lists.
	URL string
	// Ref is the branch; default main.
	Ref string
	// Timeout bounds one Fetch; default one minute.
	Timeout time.Duration

	// Username and Password are sent as HTTP basic authentication.
	Username, Password string
	// BearerToken is sent as an HTTP bearer token, instead of a password.
	BearerToken string
	// CABundle is PEM: the authorities to trust for https instead of the
	// system's.
	CABundle []byte
}

func (o Options) withDefaults() Options {
	if o.Ref == "" {
		o.Ref = defaultRef
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// Validate lists everything that is wrong. It does not look at the repository.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := o.validateURL(); err != nil {
		errs = append(errs, err)
	}
	if err := o.branch().Validate(); err != nil || strings.HasPrefix(o.Ref, "refs/") {
		problem("%q is no name of a branch", o.Ref)
	}
	if o.Timeout < 0 {
		problem("timeout %s is negative", o.Timeout)
	}
	if o.BearerToken != "" && (o.Username != "" || o.Password != "") {
		problem("a bearer token and a password exclude each other")
	}
	if o.Username != "" && o.Password == "" {
		problem("a user name needs a password")
	}
	if o.hasCredentials() && o.local() != "" {
		problem("a repository on this machine takes no credentials")
	}
	if len(o.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(o.CABundle) {
		problem("the CA bundle holds no certificate")
	}
	return errors.Join(errs...)
}

func (o Options) validateURL() error {
	if o.URL == "" {
		return errors.New("the URL of the repository is empty")
	}
	if o.local() != "" {
		return nil
	}
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return errors.New("the URL of the repository cannot be read") // err quotes it
	case u.User != nil:
		return fmt.Errorf("%s: the URL holds credentials: pass them apart", withoutCredentials(u))
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s: the URL has a query: pass the branch and credentials apart", withoutCredentials(u))
	case u.Scheme == "ssh" || u.Scheme == "git":
		return fmt.Errorf("%s: %s is not served: use https", withoutCredentials(u), u.Scheme)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%s: is neither an https, http or file URL nor a path", withoutCredentials(u))
	case u.Host == "":
		return fmt.Errorf("%s: the URL has no host", withoutCredentials(u))
	default:
		return nil
	}
}

func withoutCredentials(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// local is the path of a repository on this machine, else "".
func (o Options) local() string {
	if path, ok := strings.CutPrefix(o.URL, "file://"); ok {
		return path
	}
	before, _, isRemote := strings.Cut(o.URL, ":")
	if isRemote && !strings.Contains(before, "/") {
		return "" // scheme:… or host:…, as git has it
	}
	return o.URL
}

func (o Options) branch() plumbing.ReferenceName { return plumbing.NewBranchReferenceName(o.Ref) }

func (o Options) hasCredentials() bool {
	return o.Username != "" || o.Password != "" || o.BearerToken != ""
}
