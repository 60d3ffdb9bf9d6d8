// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxSecret bounds one file with a credential.
const maxSecret = 1 << 20

// credentials are what a folder holds. Each file is named as Kubernetes or
// Flux name the keys of such a Secret.
type credentials struct {
	dir                string // as the user named it
	username, password string
	bearer             string
	ca                 []byte // PEM
	certificate, key   []byte // PEM, of a client
	identity           []byte // private key for ssh
	knownHosts         string // path of the file
	app                githubApp
}

// readCredentials reads a folder as it is now. The zero value of credentials
// belongs to no folder.
func readCredentials(dir string) (credentials, error) {
	if dir == "" {
		return credentials{}, nil
	}
	at := dir
	// A mounted Secret changes as a whole: its files are links through one link.
	if data, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		at = data
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return credentials{}, fmt.Errorf("%s: there is no such folder with credentials", dir)
	}
	defer root.Close()
	c := credentials{dir: dir}
	files := secretFiles{root: root}
	c.username = files.text("username")
	c.password = files.text("password")
	c.bearer = files.text("bearerToken")
	c.ca = files.data("ca.crt", "caFile")
	c.certificate = files.data("tls.crt", "certFile")
	c.key = files.data("tls.key", "keyFile")
	c.identity = files.data("identity", "ssh-privatekey")
	if files.data("known_hosts") != nil {
		c.knownHosts = filepath.Join(at, "known_hosts") // its parser wants a file
	}
	c.app = githubApp{
		id:           files.text("githubAppID"),
		installation: files.text("githubAppInstallationID"),
		owner:        files.text("githubAppInstallationOwner"),
		key:          files.data("githubAppPrivateKey"),
		baseURL:      files.text("githubAppBaseURL"),
	}
	if files.err != nil {
		return credentials{}, fmt.Errorf("%s: %w", dir, files.err)
	}
	if err := c.validate(); err != nil {
		return credentials{}, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// secretFiles reads the files of one folder and keeps the first error.
type secretFiles struct {
	root *os.Root
	err  error
}

// data is the content of the first file that is there; nil without one.
func (s *secretFiles) data(names ...string) []byte {
	for _, name := range names {
		data, err := s.read(name)
		switch {
		case err == nil && len(bytes.TrimSpace(data)) == 0:
			s.fail(fmt.Errorf("%s is empty", name))
		case err == nil:
			return data
		case !errors.Is(err, fs.ErrNotExist):
			s.fail(err)
		}
	}
	return nil
}

// text is data without the space around it, which editors add.
func (s *secretFiles) text(name string) string {
	return string(bytes.TrimSpace(s.data(name)))
}

func (s *secretFiles) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *secretFiles) read(name string) (data []byte, err error) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, maxSecret+1))
	if len(data) > maxSecret {
		return nil, fmt.Errorf("%s holds more than %s", name, size(maxSecret))
	}
	return data, err
}

// validate says what is wrong with the files, whatever the URL is.
func (c credentials) validate() error {
	switch {
	case c.bearer != "" && c.username != "":
		return errors.New("bearerToken and username exclude each other")
	case c.app.set() && (c.bearer != "" || c.username != ""):
		return errors.New("githubAppID and username or bearerToken exclude each other")
	case c.username != "" && c.password == "":
		return errors.New("username is there, password is not")
	case (c.certificate == nil) != (c.key == nil):
		return errors.New("tls.crt and tls.key go together: one is missing")
	case c.ca != nil && !x509.NewCertPool().AppendCertsFromPEM(c.ca):
		return errors.New("ca.crt holds no certificate")
	}
	if c.certificate != nil {
		if _, err := tls.X509KeyPair(c.certificate, c.key); err != nil {
			return errors.New("tls.crt and tls.key are no pair of a certificate and its key")
		}
	}
	return c.app.validate()
}

// forHTTP says what keeps these credentials from being used for http.
func (c credentials) forHTTP() error {
	authenticates := c.username != "" || c.bearer != "" || c.certificate != nil || c.app.set()
	switch {
	case c.dir == "" || authenticates:
		return nil
	case c.password != "" && c.identity == nil:
		return fmt.Errorf("%s: password is there, username is not", c.dir)
	case c.identity != nil:
		return fmt.Errorf("%s: holds a key for ssh, and the URL is none of ssh", c.dir)
	case c.ca != nil:
		return nil // a public repository behind a private authority
	default:
		return fmt.Errorf("%s: holds no credentials: name the files username and password, bearerToken, tls.crt and tls.key, or githubAppID", c.dir)
	}
}

// forSSH says what keeps these credentials from being used for ssh.
func (c credentials) forSSH() error {
	switch {
	case c.identity == nil:
		return fmt.Errorf("%s: the file identity (or ssh-privatekey) is missing: it holds the private key", c.dir)
	case c.knownHosts == "":
		return fmt.Errorf("%s: the file known_hosts is missing: it says which host keys to trust", c.dir)
	default:
		return nil
	}
}

// redact takes secrets out of a text.
func redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
