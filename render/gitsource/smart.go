// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// wire carries one conversation with git-upload-pack.
type wire interface {
	// advertise answers what the server says first.
	advertise(ctx context.Context) (io.ReadCloser, error)
	// upload sends one request and answers with what comes back.
	upload(ctx context.Context, request []byte) (io.ReadCloser, error)
	// redact takes credentials out of what a server said.
	redact(text string) string
	close()
}

// connector opens a wire.
type connector interface {
	connect(ctx context.Context) (wire, error)
}

// smartRemote is a repository behind git's own protocol, version 0, which all
// servers speak.
type smartRemote struct {
	connector
	limits Limits
	packs  packs
}

func (r smartRemote) open(ctx context.Context) (session, error) {
	w, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &smartSession{wire: w, limits: r.limits, packs: r.packs}, nil
}

type smartSession struct {
	wire   wire
	limits Limits
	packs  packs
	offers *capability.List
}

func (s *smartSession) close() { s.wire.close() }

func (s *smartSession) list(ctx context.Context) (_ references, err error) {
	defer func() { err = s.redacted(err) }()
	body, err := s.wire.advertise(ctx)
	if err != nil {
		return references{}, err
	}
	defer body.Close()
	listed := packp.NewAdvRefs()
	limited := newBounded(ctx, body, s.limits.References, "the list of references holds")
	switch err := listed.Decode(bufio.NewReader(limited)); {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return references{}, nil
	case errors.Is(err, packp.ErrEmptyInput):
		return references{}, errors.New("the server answers with nothing")
	case err != nil:
		return references{}, protocolFailure(err)
	}
	s.offers = listed.Capabilities
	refs := references{hashes: listed.References, peeled: listed.Peeled}
	for _, symref := range listed.Capabilities.Get(capability.SymRef) {
		if branch, ok := strings.CutPrefix(symref, "HEAD:"+branches); ok {
			refs.head = branch
		}
	}
	refs.anyCommit = s.offers.Supports("allow-reachable-sha1-in-want") || s.offers.Supports("allow-any-sha1-in-want")
	return refs, nil
}

func (s *smartSession) redacted(err error) error {
	if err == nil || s.wire.redact(err.Error()) == err.Error() {
		return err
	}
	return said{s.wire.redact(err.Error()), err}
}

// protocolFailure says what a server answered instead of what it should.
func protocolFailure(err error) error {
	if e, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		return remoteComplaint(e.Text)
	}
	unexpected, ok := errors.AsType[*packp.ErrUnexpectedData](err)
	if ok && bytes.Contains(unexpected.Data, []byte("object-format=sha256")) {
		return said{"the repository names its objects by SHA-256: only those of SHA-1 are read", err}
	}
	if ok || errors.Is(err, pktline.ErrInvalidPktLen) {
		return said{"the server answers with something that is not git's protocol", err}
	}
	return err
}

// get asks for the commit without its history, and for nothing to be based on
// what we have: rewritten histories then need no care.
func (s *smartSession) get(ctx context.Context, want plumbing.Hash) (_ objects, err error) {
	defer func() { err = s.redacted(err) }()
	if p, err := s.packs.open(ctx, want, s.limits); err == nil {
		return p, nil
	}
	request := s.request(want)
	encoded, err := encode(request)
	if err != nil {
		return nil, err
	}
	body, err := s.wire.upload(ctx, encoded)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	response := packp.NewUploadPackResponse(request)
	limited := newBounded(ctx, body, s.limits.Pack, "the server sends")
	if err := response.Decode(io.NopCloser(limited)); err != nil {
		return nil, protocolFailure(err)
	}
	return s.packs.add(ctx, want, demultiplex(request.Capabilities, response), s.limits)
}

// request asks for as little as the server can give. Some servers serve nobody
// who does not offer multi_ack, which only matters to who has commits already.
func (s *smartSession) request(want plumbing.Hash) *packp.UploadPackRequest {
	r := packp.NewUploadPackRequestFromCapabilities(s.offers)
	r.Capabilities.Delete(capability.ThinPack) // bases that we would have to have
	r.Wants = []plumbing.Hash{want}
	if s.offers.Supports(capability.Shallow) {
		r.Depth = packp.DepthCommits(1)
		_ = r.Capabilities.Set(capability.Shallow) // fails for values only
	}
	if s.offers.Supports(capability.NoProgress) {
		_ = r.Capabilities.Set(capability.NoProgress)
	}
	return r
}

func encode(r *packp.UploadPackRequest) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := r.UploadRequest.Encode(&b); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	if err := r.UploadHaves.Encode(&b, false); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	if err := pktline.NewEncoder(&b).EncodeString("done\n"); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return b.Bytes(), nil
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
