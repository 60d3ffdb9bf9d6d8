// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// httpRemote speaks git's smart HTTP protocol. It lists and gets in one
// session, so that a new commit costs two requests and an old one costs one.
type httpRemote struct {
	client   transport.Transport
	endpoint *transport.Endpoint
	auth     transport.AuthMethod

	session transport.UploadPackSession
	listed  *packp.AdvRefs
}

func newRemote(o Options) (remote, error) {
	if path := o.local(); path != "" {
		return localRemote{path}, nil
	}
	endpoint, err := transport.NewEndpoint(o.URL)
	if err != nil {
		return nil, errors.New("the URL of the repository cannot be read")
	}
	return &httpRemote{
		client:   githttp.NewClient(&http.Client{Transport: o.roundTripper()}),
		endpoint: endpoint,
		auth:     o.auth(),
	}, nil
}

func (o Options) roundTripper() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if len(o.CABundle) > 0 {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(o.CABundle)
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t
}

func (o Options) auth() transport.AuthMethod {
	switch {
	case o.BearerToken != "":
		return &githttp.TokenAuth{Token: o.BearerToken}
	case o.Password != "":
		return &githttp.BasicAuth{Username: o.Username, Password: o.Password}
	default:
		return nil
	}
}

func (r *httpRemote) list(ctx context.Context) (references, error) {
	session, err := r.client.NewUploadPackSession(r.endpoint, r.auth)
	if err != nil {
		return references{}, err
	}
	listed, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return references{}, nil
	}
	if err != nil {
		return references{}, err
	}
	r.session, r.listed = session, listed
	refs := references{branches: map[string]plumbing.Hash{}}
	for name, hash := range listed.References {
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			refs.branches[branch] = hash
		}
	}
	for _, symref := range listed.Capabilities.Get(capability.SymRef) {
		if branch, ok := strings.CutPrefix(symref, "HEAD:refs/heads/"); ok {
			refs.head = branch
		}
	}
	return refs, nil
}

// get asks for the commit without its history, and for nothing to be based on
// what we have: there is nothing.
func (r *httpRemote) get(ctx context.Context, commit plumbing.Hash) (_ storer.EncodedObjectStorer, err error) {
	request := packp.NewUploadPackRequestFromCapabilities(r.listed.Capabilities)
	request.Wants = []plumbing.Hash{commit}
	if r.listed.Capabilities.Supports(capability.Shallow) {
		request.Depth = packp.DepthCommits(1)
		if err := request.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
	}
	if r.listed.Capabilities.Supports(capability.NoProgress) {
		if err := request.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	response, err := r.session.UploadPack(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Close()) }()

	store := newStore()
	pack := &bounded{r: demultiplex(request.Capabilities, response), left: maxPack}
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(pack), store)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, err
	}
	return store, nil
}

func demultiplex(c *capability.List, r io.Reader) io.Reader {
	switch {
	case c.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case c.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	default:
		return r
	}
}

// plain says what went wrong in one line of our own words, where go-git would
// quote what the server answered.
func (o Options) plain(err error) error {
	refused := "the server asks for credentials"
	if o.hasCredentials() {
		refused = "the server refuses the credentials"
	}
	for _, known := range []struct {
		err  error
		says string
	}{
		{transport.ErrAuthenticationRequired, refused},
		{transport.ErrAuthorizationFailed, "the server does not allow reading this repository"},
		{transport.ErrRepositoryNotFound, "there is no such repository, or it is hidden from us"},
	} {
		if errors.Is(err, known.err) {
			return said{known.says, known.err}
		}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the URL is told already
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, secret := range []string{o.Password, o.BearerToken} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return said{text, err}
}

// said is an error in other words.
type said struct {
	words string
	err   error
}

func (s said) Error() string { return s.words }
func (s said) Unwrap() error { return s.err }
