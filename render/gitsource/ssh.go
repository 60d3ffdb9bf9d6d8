// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// sshRemote runs git-upload-pack on a server. It heeds no configuration of the
// user or the machine, and no agent that holds keys.
type sshRemote struct {
	at      address
	options Options
}

// connect dials, verifies the host and authenticates.
func (r *sshRemote) connect(ctx context.Context) (_ wire, err error) {
	config, err := r.config()
	if err != nil {
		return nil, err
	}
	if err := hosts(r.options.AllowedHosts).check(r.at.scheme, r.at.host); err != nil {
		return nil, err
	}
	conn, err := dialVia(ctx, r.options.Proxy, r.at.dial())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // ends whatever waits for it
	defer func() {
		if err != nil {
			stop()
			conn.Close()
		}
	}()
	c, channels, requests, err := ssh.NewClientConn(conn, r.at.dial(), config)
	if err != nil {
		return nil, handshakeFailure(err, config)
	}
	w := &sshWire{client: ssh.NewClient(c, channels, requests), stop: stop}
	if err := w.start("git-upload-pack " + shellQuote(r.at.path)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (r *sshRemote) config() (*ssh.ClientConfig, error) {
	c, err := readCredentials(r.options.Auth)
	if err != nil {
		return nil, err
	}
	if err := c.forSSH(); err != nil {
		return nil, err
	}
	signer, err := c.signer()
	if err != nil {
		return nil, err
	}
	hosts, err := readKnownHosts(c.knownHosts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.dir, err)
	}
	// Only kinds of keys that known_hosts has for this host: the server would
	// choose another one it has, which then looks like a wrong key.
	algorithms := hosts.HostKeyAlgorithms(r.at.dial())
	if len(algorithms) == 0 {
		return nil, fmt.Errorf("%s: known_hosts has no key of %s", c.dir, xknownhosts.Normalize(r.at.dial()))
	}
	return &ssh.ClientConfig{
		User:              r.at.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   hosts.HostKeyCallback(),
		HostKeyAlgorithms: algorithms,
	}, nil
}

// signer is the private key. A password beside it is its passphrase.
func (c credentials) signer() (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(c.identity)
	if _, encrypted := errors.AsType[*ssh.PassphraseMissingError](err); encrypted {
		if c.password == "" {
			return nil, fmt.Errorf("%s: identity is encrypted and the file password, which holds its passphrase, is missing", c.dir)
		}
		if signer, err = ssh.ParsePrivateKeyWithPassphrase(c.identity, []byte(c.password)); err != nil {
			return nil, fmt.Errorf("%s: the passphrase in the file password does not open identity", c.dir)
		}
		return signer, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: identity is no private key that ssh knows", c.dir) // err may quote it
	}
	return signer, nil
}

// handshakeFailure says what a person has to look at.
func handshakeFailure(err error, config *ssh.ClientConfig) error {
	kinds := strings.Join(config.HostKeyAlgorithms, ", ")
	if e, ok := errors.AsType[*xknownhosts.KeyError](err); ok && len(e.Want) > 0 {
		return said{fmt.Sprintf("the host key of the server is not the one in known_hosts (%s): somebody may be in between, or the server has a new key", e.Want[0].Key.Type()), err}
	}
	if e, ok := errors.AsType[*xknownhosts.RevokedError](err); ok {
		return said{fmt.Sprintf("the host key of the server is revoked by line %d of known_hosts", e.Revoked.Line), err}
	}
	if e, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok && strings.Contains(e.Error(), "host key") {
		return said{"the server has no host key of a kind that known_hosts has: " + kinds, err}
	}
	if strings.Contains(err.Error(), "no authorities for hostname") {
		return said{"the host key of the server is certified by no @cert-authority in known_hosts", err}
	}
	if strings.Contains(err.Error(), "unable to authenticate") {
		return said{"the server refuses the key", err}
	}
	return err
}

// sshWire is one run of git-upload-pack. The server lists its references first,
// then serves one request on the same stream.
type sshWire struct {
	client  *ssh.Client
	stop    func() bool
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	stderr  firstBytes
}

func (w *sshWire) start(command string) (err error) {
	if w.session, err = w.client.NewSession(); err != nil {
		return err
	}
	if w.in, err = w.session.StdinPipe(); err != nil {
		return err
	}
	if w.out, err = w.session.StdoutPipe(); err != nil {
		return err
	}
	w.session.Stderr = &w.stderr
	return w.session.Start(command)
}

func (w *sshWire) advertise(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(&sshOutput{w: w}), nil
}

func (w *sshWire) upload(_ context.Context, request []byte) (io.ReadCloser, error) {
	if _, err := w.in.Write(request); err != nil {
		return nil, err
	}
	return io.NopCloser(&sshOutput{w: w}), nil
}

// redact has nothing to do: a server never sees a private key.
func (w *sshWire) redact(text string) string { return text }

// close ends the connection and waits until nothing reads from it.
func (w *sshWire) close() {
	w.stop()
	_ = w.client.Close() // it may be gone already
	_ = w.client.Wait()
}

// sshOutput is what git-upload-pack writes. Where it ends without a word, the
// server's complaint takes its place. Gitea writes an empty line before it.
type sshOutput struct {
	w    *sshWire
	some bool
}

func (o *sshOutput) Read(p []byte) (int, error) {
	n, err := o.w.out.Read(p)
	if o.some = o.some || len(bytes.TrimSpace(p[:n])) > 0; err == io.EOF && !o.some {
		_ = o.w.session.Wait() // until the complaint is complete
		if complaint := o.w.stderr.String(); complaint != "" {
			return n, remoteComplaint(complaint)
		}
	}
	return n, err
}

// remoteComplaint is what a git server says of itself, in our words if we know
// what it means.
func remoteComplaint(text string) error {
	lower := strings.ToLower(text)
	for _, hidden := range []string{
		"not found", "does not exist", "could not be found", "not appear to be a git repository",
		"no such repository", "access denied", "permission denied", "do not have access", "not allowed", "not authorized",
	} {
		if strings.Contains(lower, hidden) {
			return said{"there is no such repository, or it is hidden from us", errors.New(text)}
		}
	}
	return errors.New("the server says: " + text)
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (f *firstBytes) Write(p []byte) (int, error) {
	const most = 1000
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf.Write(p[:min(len(p), most-min(most, f.buf.Len()))])
	return len(p), nil
}

func (f *firstBytes) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.TrimSpace(f.buf.String())
}

// shellQuote makes a path one word for the shell that the server may run.
func shellQuote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}
