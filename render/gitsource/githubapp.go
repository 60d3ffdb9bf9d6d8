// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	githubAPI = "https://api.github.com"
	// tokenMargin is how long before its end a token is not used any more: a
	// fetch that begins with it shall end with it.
	tokenMargin = 5 * time.Minute
)

// githubApp is one installation of a GitHub App. The zero value is none.
type githubApp struct {
	id, installation string // numbers
	key              []byte // PEM
	baseURL          string // of the API; "" means github.com's
}

func (a githubApp) set() bool { return a.id != "" || a.installation != "" || a.key != nil }

func (a githubApp) validate() error {
	if !a.set() {
		return nil
	}
	for _, number := range []struct{ name, value string }{{"githubAppID", a.id}, {"githubAppInstallationID", a.installation}} {
		if number.value == "" {
			return fmt.Errorf("%s is missing", number.name)
		}
		if n, err := strconv.ParseInt(number.value, 10, 64); err != nil || n <= 0 {
			return fmt.Errorf("%s is no number", number.name)
		}
	}
	if a.key == nil {
		return errors.New("githubAppPrivateKey is missing")
	}
	if _, err := jwt.ParseRSAPrivateKeyFromPEM(a.key); err != nil {
		return errors.New("githubAppPrivateKey is no RSA private key in PEM")
	}
	if u, err := url.Parse(a.api()); err != nil || u.Host == "" || u.User != nil || insecure(u) {
		return errors.New("githubAppBaseURL is no https URL: write it like https://github.example.com/api/v3")
	}
	return nil
}

func (a githubApp) api() string {
	if a.baseURL == "" {
		return githubAPI
	}
	return strings.TrimRight(a.baseURL, "/")
}

func (a githubApp) same(b githubApp) bool {
	return a.id == b.id && a.installation == b.installation && a.baseURL == b.baseURL && bytes.Equal(a.key, b.key)
}

// installationToken is what an installation authenticates with for an hour.
type installationToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// tokens remembers the token of one installation.
type tokens struct {
	now  func() time.Time
	app  githubApp
	last installationToken
}

// token answers one that is good for a while, and asks for it if it has to.
func (t *tokens) token(ctx context.Context, client *http.Client, app githubApp) (string, error) {
	if t.now == nil {
		return "", errors.New("GitHub App: there is no clock to sign by")
	}
	if now := t.now(); !t.app.same(app) || !now.Before(t.last.ExpiresAt.Add(-tokenMargin)) {
		issued, err := app.issue(ctx, client, now)
		if err != nil {
			return "", err
		}
		t.app, t.last = app, issued
	}
	return t.last.Token, nil
}

// forget makes the next fetch ask for a new token.
func (t *tokens) forget() { t.last = installationToken{} }

// issue asks for a token that reads contents and nothing else.
func (a githubApp) issue(ctx context.Context, client *http.Client, now time.Time) (installationToken, error) {
	signed, err := a.sign(now)
	if err != nil {
		return installationToken{}, err
	}
	at := a.api() + "/app/installations/" + a.installation + "/access_tokens"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(`{"permissions":{"contents":"read"}}`))
	if err != nil {
		return installationToken{}, errors.New("githubAppBaseURL cannot be read")
	}
	request.Header.Set("Authorization", "Bearer "+signed)
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return installationToken{}, fmt.Errorf("GitHub App: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		return installationToken{}, appRefusal(response, a)
	}
	var issued installationToken
	if err := json.NewDecoder(io.LimitReader(response.Body, maxSecret)).Decode(&issued); err != nil || issued.Token == "" {
		return installationToken{}, errors.New("GitHub App: the API answers with no token")
	}
	return issued, nil
}

// appRefusal says what GitHub's status means for an App.
func appRefusal(response *http.Response, a githubApp) error {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("GitHub App: the API refuses the key of app %s", a.id)
	case http.StatusNotFound:
		return fmt.Errorf("GitHub App: app %s has no installation %s", a.id, a.installation)
	case http.StatusUnprocessableEntity:
		return fmt.Errorf("GitHub App: app %s lacks the permission Contents: read", a.id)
	default:
		return fmt.Errorf("GitHub App: %w", newStatusError(response))
	}
}

// sign makes the token that the App itself authenticates with. It begins a
// minute ago, as GitHub advises: clocks differ.
func (a githubApp) sign(now time.Time) (string, error) {
	key, err := jwt.ParseRSAPrivateKeyFromPEM(a.key)
	if err != nil {
		return "", errors.New("githubAppPrivateKey is no RSA private key in PEM")
	}
	return jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer:    a.id,
		IssuedAt:  jwt.NewNumericDate(now.Add(-time.Minute)),
		ExpiresAt: jwt.NewNumericDate(now.Add(9 * time.Minute)),
	}).SignedString(key)
}
