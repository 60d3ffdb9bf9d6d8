// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// secret is a folder of credentials.
func secret(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	writeSecret(t, dir, files)
	return dir
}

func writeSecret(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPasswords(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{TLS: true, Username: "agent", Password: "hunter2"})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	ca := string(server.CA(t))
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // of the error; "" means that it reads
	}{
		"good":                {map[string]string{"username": "agent", "password": "hunter2\n", "ca.crt": ca}, ""},
		"Flux's old names":    {map[string]string{"username": "agent", "password": "hunter2", "caFile": ca}, ""},
		"other files beside":  {map[string]string{"username": "agent", "password": "hunter2", "ca.crt": ca, "identity.pub": "x", "note": "x"}, ""},
		"wrong password":      {map[string]string{"username": "agent", "password": "swordfish", "ca.crt": ca}, "refuses the credentials"},
		"token for password":  {map[string]string{"bearerToken": "swordfish", "ca.crt": ca}, "refuses the credentials"},
		"authority only":      {map[string]string{"ca.crt": ca}, "refuses the credentials"},
		"no authority":        {map[string]string{"username": "agent", "password": "swordfish"}, "certificate signed by unknown authority"},
		"no password":         {map[string]string{"username": "agent"}, "username is there, password is not"},
		"no username":         {map[string]string{"password": "swordfish"}, "password is there, username is not"},
		"empty password":      {map[string]string{"username": "agent", "password": " \n"}, "password is empty"},
		"both":                {map[string]string{"username": "agent", "password": "swordfish", "bearerToken": "swordfish"}, "exclude each other"},
		"no certificate":      {map[string]string{"username": "agent", "password": "swordfish", "ca.crt": "swordfish"}, "ca.crt holds no certificate"},
		"half a pair":         {map[string]string{"tls.crt": ca}, "tls.crt and tls.key go together"},
		"no pair":             {map[string]string{"tls.crt": ca, "tls.key": "swordfish"}, "no pair of a certificate and its key"},
		"key of ssh":          {map[string]string{"identity": "swordfish"}, "a key for ssh, and the URL is none of ssh"},
		"nothing":             {map[string]string{"token": "swordfish"}, "holds no credentials: name the files username and password"},
		"endless file":        {map[string]string{"username": "agent", "password": strings.Repeat("swordfish", 200_000)}, "password holds more than 1 MiB"},
		"App without its key": {map[string]string{"githubAppID": "7", "githubAppInstallationID": "8"}, "githubAppPrivateKey is missing"},
		"App, no number":      {map[string]string{"githubAppID": "swordfish", "githubAppInstallationID": "8", "githubAppPrivateKey": "swordfish"}, "githubAppID is no number"},
		"App, no key":         {map[string]string{"githubAppID": "7", "githubAppInstallationID": "8", "githubAppPrivateKey": "swordfish"}, "no RSA private key"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := secret(t, tt.files)
			s := newSource(t, gitsource.Options{URL: repo.URL(), Auth: dir})
			if tt.want == "" {
				if content(t, fetch(t, s), "dir/a.yaml") != "one" {
					t.Error("good credentials do not read")
				}
				return
			}
			if err := fetchError(t, s, tt.want); strings.Contains(err.Error(), "swordfish") {
				t.Errorf("err = %v", err)
			}
		})
	}
	fetchError(t, newSource(t, gitsource.Options{URL: strings.Replace(repo.URL(), "https", "http", 1)}), "status 400")
}

func TestServerThatAsksForCredentials(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{Username: "agent", Password: "hunter2"})
	repo := server.Repo(t, "fleet")
	fetchError(t, newSource(t, gitsource.Options{URL: repo.URL()}), "the server asks for credentials")
}

func TestCredentialsAreNotSentInTheOpen(t *testing.T) {
	auth := secret(t, map[string]string{"bearerToken": "hunter2"})
	fetchError(t, newSource(t, gitsource.Options{URL: "http://git.invalid/fleet.git", Auth: auth}), "use https")
}

func TestBearerToken(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{TLS: true, BearerToken: "sesame"})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	auth := secret(t, map[string]string{"bearerToken": "sesame\n", "ca.crt": string(server.CA(t))})
	if content(t, fetch(t, newSource(t, gitsource.Options{URL: repo.URL(), Auth: auth})), "dir/a.yaml") != "one" {
		t.Error("a good token does not read")
	}
}

func TestRotatedCredentialsAreReadAtTheNextFetch(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{TLS: true, BearerToken: "second"})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	// As the kubelet lays a Secret out: each file links through one link.
	dir := t.TempDir()
	publish := func(version, token string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		writeSecret(t, filepath.Join(dir, version), map[string]string{"bearerToken": token, "ca.crt": string(server.CA(t))})
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bearerToken", "ca.crt"} {
		if err := os.Symlink("..data/"+name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	publish("..2026_01", "first")
	s := newSource(t, gitsource.Options{URL: repo.URL(), Auth: dir})
	fetchError(t, s, "refuses the credentials")
	publish("..2026_02", "second")
	if content(t, fetch(t, s), "dir/a.yaml") != "one" {
		t.Error("the new token does not read")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	fetchError(t, s, "there is no such folder with credentials")
}

// clientCertificate makes an authority and a client's certificate of it.
func clientCertificate(t *testing.T) (ca, certificate, key []byte) {
	t.Helper()
	make := func(serial int64, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "lamplighter"},
			NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			IsCA:        parent == nil, BasicConstraintsValid: true,
		}
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	authority, authorityKey := make(1, nil, nil)
	client, clientKey := make(2, authority, authorityKey)
	der, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return block("CERTIFICATE", authority.Raw), block("CERTIFICATE", client.Raw), block("PRIVATE KEY", der)
}

func TestClientCertificate(t *testing.T) {
	ca, certificate, key := clientCertificate(t)
	server := testkit.StartGit(t, testkit.GitOptions{TLS: true, ClientCA: ca})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	files := map[string]string{"ca.crt": string(server.CA(t)), "tls.crt": string(certificate), "tls.key": string(key)}
	if content(t, fetch(t, newSource(t, gitsource.Options{URL: repo.URL(), Auth: secret(t, files)})), "dir/a.yaml") != "one" {
		t.Error("a good certificate does not read")
	}
	delete(files, "tls.crt")
	delete(files, "tls.key")
	fetchError(t, newSource(t, gitsource.Options{URL: repo.URL(), Auth: secret(t, files)}), "tls: certificate required")
}

func TestRedirects(t *testing.T) {
	real := testkit.StartGit(t, testkit.GitOptions{})
	real.Repo(t, "fleet").Commit(t, "main", "one", files("one"))
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the stranger is asked for %s", r.URL)
	}))
	defer stranger.Close()
	mux := http.NewServeMux()
	mux.Handle("/fleet.git/", real)
	mux.Handle("/renamed.git/info/refs", http.RedirectHandler("/fleet.git/info/refs?service=git-upload-pack", http.StatusMovedPermanently))
	mux.Handle("/moved.git/info/refs", http.RedirectHandler(stranger.URL+"/fleet.git/info/refs?service=git-upload-pack", http.StatusFound))
	mux.Handle("/circle.git/info/refs", http.RedirectHandler("/circle.git/info/refs", http.StatusFound))
	mux.Handle("/login.git/info/refs", http.RedirectHandler("/login", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	auth := secret(t, map[string]string{"bearerToken": "sesame"})
	source := func(name string) *gitsource.Source {
		return newSource(t, gitsource.Options{URL: server.URL + "/" + name, Auth: auth})
	}
	if content(t, fetch(t, source("renamed.git")), "dir/a.yaml") != "one" {
		t.Error("a renamed repository is not found")
	}
	fetchError(t, source("moved.git"), "the server redirects to "+stranger.URL+"/fleet.git: if that is right, name it with --git")
	fetchError(t, source("circle.git"), "redirects in circles")
	fetchError(t, source("login.git"), "/login, which is no repository")
}
