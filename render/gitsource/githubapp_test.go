// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// fakeGitHub is GitHub's API for one installation of one App, and the git
// server beside it, which takes the newest token only.
type fakeGitHub struct {
	git *testkit.GitServer
	key *rsa.PublicKey

	mu     sync.Mutex
	now    time.Time
	issued int
	status int // of the next answers of the API, unless 0
}

func (g *fakeGitHub) token() string { return fmt.Sprintf("ghs_%d", g.issued) }

func (g *fakeGitHub) clock() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

func (g *fakeGitHub) wait(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = g.now.Add(d)
}

func (g *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/fleet.git/") {
		if user, password, _ := r.BasicAuth(); user != "x-access-token" || g.issued == 0 || password != g.token() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		g.git.ServeHTTP(w, r)
		return
	}
	if g.status != 0 {
		w.WriteHeader(g.status)
		return
	}
	authorized := g.authorizes(r)
	if id, ok := map[string]int{"/api/v3/orgs/platform/installation": 8, "/api/v3/users/ann/installation": 8}[r.URL.Path]; ok && r.Method == http.MethodGet && authorized {
		_ = json.NewEncoder(w).Encode(map[string]any{"id": id})
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/8/access_tokens" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !authorized {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"permissions":{"contents":"read"}}` {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	g.issued++
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": g.token(), "expires_at": g.now.Add(time.Hour)})
}

// authorizes says whether the App has signed a request.
func (g *fakeGitHub) authorizes(r *http.Request) bool {
	claims := jwt.RegisteredClaims{}
	_, err := jwt.NewParser(jwt.WithTimeFunc(func() time.Time { return g.now }), jwt.WithIssuedAt(), jwt.WithExpirationRequired(), jwt.WithIssuer("7"), jwt.WithValidMethods([]string{"RS256"})).
		ParseWithClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), &claims, func(*jwt.Token) (any, error) { return g.key, nil })
	return err == nil && claims.ExpiresAt.Sub(g.now) <= 10*time.Minute
}

func (g *fakeGitHub) fail(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status = status
}

func (g *fakeGitHub) tokensIssued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.issued
}

func appKey(t *testing.T) (*rsa.PrivateKey, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func TestGitHubApp(t *testing.T) {
	key, keyPEM := appKey(t)
	github := &fakeGitHub{
		git: testkit.StartGit(t, testkit.GitOptions{}), key: &key.PublicKey, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	repo := github.git.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	server := httptest.NewServer(github)
	defer server.Close()
	auth := secret(t, map[string]string{
		"githubAppID": "7\n", "githubAppInstallationID": "8", "githubAppPrivateKey": keyPEM, "githubAppBaseURL": server.URL + "/api/v3/",
	})
	s := newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: auth, Now: github.clock})

	wantTokens := func(want int) {
		t.Helper()
		if got := github.tokensIssued(); got != want {
			t.Errorf("%d tokens were issued, want %d", got, want)
		}
	}
	for range 3 {
		fetch(t, s)
	}
	wantTokens(1)
	github.wait(54 * time.Minute)
	fetch(t, s)
	wantTokens(1)
	github.wait(2 * time.Minute) // four minutes before it expires
	fetch(t, s)
	wantTokens(2)

	github.mu.Lock()
	github.issued++ // the token we have is revoked
	github.mu.Unlock()
	fetchError(t, s, "refuses the credentials")
	fetch(t, s)
	wantTokens(4)

	for status, want := range map[int]string{
		http.StatusUnauthorized:        "GitHub App: the API refuses the key of app 7",
		http.StatusNotFound:            "GitHub App: app 7 has no installation 8",
		http.StatusUnprocessableEntity: "GitHub App: app 7 lacks the permission Contents: read",
		http.StatusBadGateway:          "GitHub App: the server answers with status 502 Bad Gateway",
		http.StatusFound:               "GitHub App: ",
	} {
		github.fail(status)
		github.wait(time.Hour)
		fetchError(t, s, want)
	}
	github.fail(0)
	fetch(t, s)

	other, otherPEM := appKey(t)
	writeSecret(t, auth, map[string]string{"githubAppPrivateKey": otherPEM})
	fetchError(t, s, "refuses the key of app 7")
	github.mu.Lock()
	github.key = &other.PublicKey
	github.mu.Unlock()
	fetch(t, s)
}

func TestGitHubAppNeedsAnEncryptedAPI(t *testing.T) {
	_, keyPEM := appKey(t)
	auth := secret(t, map[string]string{
		"githubAppID": "7", "githubAppInstallationID": "8", "githubAppPrivateKey": keyPEM, "githubAppBaseURL": "http://github.invalid/api/v3",
	})
	s := newSource(t, gitsource.Options{URL: "https://github.invalid/fleet.git", Auth: auth, Now: time.Now})
	fetchError(t, s, "githubAppBaseURL is no https URL")
}

func TestGitHubAppOfAnOwner(t *testing.T) {
	key, keyPEM := appKey(t)
	github := &fakeGitHub{
		git: testkit.StartGit(t, testkit.GitOptions{}), key: &key.PublicKey, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	github.git.Repo(t, "fleet").Commit(t, "main", "one", files("one"))
	server := httptest.NewServer(github)
	defer server.Close()
	app := map[string]string{"githubAppID": "7", "githubAppPrivateKey": keyPEM, "githubAppBaseURL": server.URL + "/api/v3"}
	for owner, want := range map[string]string{
		"platform\n": "", "ann": "",
		"nobody":  "GitHub App: app 7 is not installed for nobody",
		"../../x": "githubAppInstallationOwner is no name of an organisation or user",
	} {
		app["githubAppInstallationOwner"] = owner
		s := newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: secret(t, app), Now: github.clock})
		if want != "" {
			fetchError(t, s, want)
			continue
		}
		if content(t, fetch(t, s), "dir/a.yaml") != "one" {
			t.Errorf("the installation of %q does not read", owner)
		}
	}
	github.fail(http.StatusUnauthorized)
	app["githubAppInstallationOwner"] = "ann"
	fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: secret(t, app), Now: github.clock}), "the API refuses the key of app 7")
	app["githubAppInstallationID"] = "8"
	fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: secret(t, app), Now: github.clock}), "exclude each other")
	delete(app, "githubAppInstallationID")
	delete(app, "githubAppInstallationOwner")
	fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: secret(t, app), Now: github.clock}), "githubAppInstallationID or githubAppInstallationOwner is missing")
}
