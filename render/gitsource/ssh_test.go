// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// identity makes a user's key, as ssh-keygen writes it.
func identity(t *testing.T, passphrase string) (private string, public ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), signer.PublicKey()
}

// hostKeys are one of each kind that servers have.
func hostKeys(t *testing.T) (rsaKey, ecdsaKey, ed25519Key ssh.Signer) {
	t.Helper()
	signer := func(key any, err error) ssh.Signer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s, err := ssh.NewSignerFromKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	rsaKey = signer(r, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return rsaKey, signer(e, err), testkit.NewSSHKey(t)
}

func TestSSH(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	repo := git.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	key, public := identity(t, "")
	locked, lockedPublic := identity(t, "swordfish")
	stranger, _ := identity(t, "")
	server := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public, lockedPublic}})
	hosts := server.KnownHosts()
	other := knownhosts.Line([]string{server.Addr()}, testkit.NewSSHKey(t).PublicKey())

	for name, tt := range map[string]struct {
		files map[string]string
		want  string // of the error; "" means that it reads
	}{
		"good":               {map[string]string{"identity": key, "identity.pub": "ignored", "known_hosts": hosts}, ""},
		"Kubernetes' name":   {map[string]string{"ssh-privatekey": key, "known_hosts": hosts}, ""},
		"passphrase":         {map[string]string{"identity": locked, "password": "swordfish\n", "known_hosts": hosts}, ""},
		"no passphrase":      {map[string]string{"identity": locked, "known_hosts": hosts}, "password, which holds its passphrase, is missing"},
		"wrong passphrase":   {map[string]string{"identity": locked, "password": "sword-fish", "known_hosts": hosts}, "does not open identity"},
		"no key":             {map[string]string{"known_hosts": hosts}, "identity (or ssh-privatekey) is missing"},
		"unreadable key":     {map[string]string{"identity": "swordfish", "known_hosts": hosts}, "no private key that ssh knows"},
		"unknown key":        {map[string]string{"identity": stranger, "known_hosts": hosts}, "the server refuses the key"},
		"no known_hosts":     {map[string]string{"identity": key}, "known_hosts is missing"},
		"other host":         {map[string]string{"identity": key, "known_hosts": strings.ReplaceAll(hosts, "127.0.0.1", "127.0.0.2")}, "known_hosts has no key of [127.0.0.1]:"},
		"wrong host key":     {map[string]string{"identity": key, "known_hosts": other}, "is not the one in known_hosts (ssh-ed25519)"},
		"broken known_hosts": {map[string]string{"identity": key, "known_hosts": "\n" + "host ssh-ed25519 !!!\n"}, "known_hosts, line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, gitsource.Options{URL: server.URL(repo), Auth: secret(t, tt.files)})
			if tt.want != "" {
				if err := fetchError(t, s, tt.want); strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "PRIVATE") {
					t.Errorf("err = %v", err)
				}
				return
			}
			if content(t, fetch(t, s), "dir/a.yaml") != "one" {
				t.Error("a good key does not read")
			}
		})
	}
}

// A client that lets the server choose among its keys meets one that is not in
// known_hosts, and calls it wrong.
func TestKnownHostsInEveryForm(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	repo := git.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	key, public := identity(t, "")
	rsaKey, ecdsaKey, ed25519Key := hostKeys(t)
	server := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}, HostKeys: []ssh.Signer{ecdsaKey, rsaKey, ed25519Key}})
	at := []string{server.Addr()}
	line := func(s ssh.Signer) string { return knownhosts.Line(at, s.PublicKey()) }
	hashed := func(s ssh.Signer) string {
		return strings.Replace(line(s), knownhosts.Normalize(server.Addr()), knownhosts.HashHostname(knownhosts.Normalize(server.Addr())), 1)
	}
	wrong := testkit.NewSSHKey(t)

	for name, tt := range map[string]struct{ hosts, want string }{
		"rsa only":          {line(rsaKey), ""},
		"ecdsa only":        {line(ecdsaKey), ""},
		"ed25519 only":      {line(ed25519Key), ""},
		"all":               {line(rsaKey) + "\n" + line(ed25519Key) + "\n" + line(ecdsaKey), ""},
		"all, other order":  {line(ecdsaKey) + "\n" + line(rsaKey) + "\n" + line(ed25519Key), ""},
		"hashed":            {hashed(ed25519Key) + "\n" + hashed(rsaKey), ""},
		"several hosts":     {knownhosts.Line([]string{"github.com", "gitlab.com"}, wrong.PublicKey()) + "\n" + line(rsaKey), ""},
		"comments":          {"# our server\n\n" + line(ed25519Key) + " the comment", ""},
		"new key beside":    {line(wrong) + "\n" + line(ed25519Key), ""},
		"pattern":           {"*.0.0.1 " + strings.SplitN(line(ed25519Key), " ", 2)[1], ""},
		"revoked":           {"@revoked * " + strings.SplitN(line(ed25519Key), " ", 2)[1] + "\n" + line(ed25519Key), "revoked by line 1"},
		"other port":        {knownhosts.Line([]string{"127.0.0.1:22"}, ed25519Key.PublicKey()), "has no key of [127.0.0.1]"},
		"empty of our host": {knownhosts.Line([]string{"github.com"}, ed25519Key.PublicKey()), "has no key of [127.0.0.1]"},
	} {
		t.Run(name, func(t *testing.T) {
			auth := secret(t, map[string]string{"identity": key, "known_hosts": tt.hosts + "\n"})
			s := newSource(t, gitsource.Options{URL: server.URL(repo), Auth: auth})
			if tt.want != "" {
				fetchError(t, s, tt.want)
				return
			}
			fetch(t, s)
		})
	}
}

func TestHostCertificates(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	repo := git.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	key, public := identity(t, "")
	authority, host := testkit.NewSSHKey(t), testkit.NewSSHKey(t)
	certificate := &ssh.Certificate{
		Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity,
	}
	if err := certificate.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(certificate, host)
	if err != nil {
		t.Fatal(err)
	}
	server := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}, HostKeys: []ssh.Signer{signer, host}})
	trusting := func(authority ssh.Signer) *gitsource.Source {
		line := "@cert-authority " + knownhosts.Line([]string{server.Addr()}, authority.PublicKey()) + "\n"
		return newSource(t, gitsource.Options{URL: server.URL(repo), Auth: secret(t, map[string]string{"identity": key, "known_hosts": line})})
	}
	fetch(t, trusting(authority))
	fetchError(t, trusting(testkit.NewSSHKey(t)), "certified by no @cert-authority in known_hosts")
}

func TestSSHRemotesWithNothingForUs(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	repo := git.Repo(t, "fleet")
	key, public := identity(t, "")
	server := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}})
	auth := secret(t, map[string]string{"identity": key, "known_hosts": server.KnownHosts()})
	source := func(url string) *gitsource.Source { return newSource(t, gitsource.Options{URL: url, Auth: auth}) }

	fetchError(t, source(server.URL(repo)), "the repository is empty: push to main")
	fetchError(t, source(strings.Replace(server.URL(repo), "fleet", "missing", 1)), "there is no such repository, or it is hidden from us")
	fetchError(t, source(strings.Replace(server.URL(repo), "fleet.git", "it's!.git", 1)), "unrecognized command 'git-upload-pack '/it'\\''s'\\!'.git''")
	repo.Commit(t, "main", "one", files("one"))
	s := source(server.URL(repo))
	one := fetch(t, s)
	if again := fetch(t, s); again != one {
		t.Errorf("commit = %+v, want the same as before", again)
	}
	server.Stop()
	fetchError(t, s, "connection refused")
	if content(t, one, "dir/a.yaml") != "one" {
		t.Error("the last good commit is not readable")
	}
}

func TestSSHServerThatSaysNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	key, _ := identity(t, "")
	hosts := knownhosts.Line([]string{listener.Addr().String()}, testkit.NewSSHKey(t).PublicKey())
	s := newSource(t, gitsource.Options{
		URL:     fmt.Sprintf("ssh://git@%s/fleet.git", listener.Addr()),
		Auth:    secret(t, map[string]string{"identity": key, "known_hosts": hosts}),
		Timeout: shortTimeout,
	})
	fetchError(t, s, "no answer in "+shortTimeout.String())
}

// TestProxies goes through one that tunnels, for https and for ssh.
func TestProxies(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{TLS: true})
	repo := git.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	key, public := identity(t, "")
	server := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}})
	// Names that only the proxy knows.
	proxy := startProxy(t, map[string]string{
		"git.internal:443": strings.TrimPrefix(git.URL(), "https://"),
		"git.internal:22":  server.Addr(),
	})
	hosts := "git.internal " + strings.SplitN(server.KnownHosts(), " ", 2)[1]
	auth := secret(t, map[string]string{"identity": key, "known_hosts": hosts})
	s := newSource(t, gitsource.Options{URL: "git@git.internal:fleet.git", Auth: auth, Proxy: proxy})
	if content(t, fetch(t, s), "dir/a.yaml") != "one" {
		t.Error("ssh does not go through the proxy")
	}
	auth = secret(t, map[string]string{"ca.crt": string(git.CA(t))})
	s = newSource(t, gitsource.Options{URL: "https://git.internal/fleet.git", Auth: auth, Proxy: proxy})
	fetchError(t, s, "certificate is valid for") // which only the server can have told
	fetchError(t, newSource(t, gitsource.Options{URL: "https://elsewhere.internal/fleet.git", Proxy: proxy}), "Bad Gateway")
	auth = secret(t, map[string]string{"identity": key, "known_hosts": "elsewhere.internal " + strings.SplitN(hosts, " ", 2)[1]})
	fetchError(t, newSource(t, gitsource.Options{URL: "git@elsewhere.internal:fleet.git", Auth: auth, Proxy: proxy}), "the proxy refuses to connect to elsewhere.internal:22: status 502")
}
