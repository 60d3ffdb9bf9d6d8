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
	"regexp"
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
	owner            string // of the installation, an organisation or a user; takes the place of installation
	key              []byte // PEM
	baseURL          string // of the API; "" means github.com's
}

// githubAccount is the name of an organisation or user.
var githubAccount = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

func (a githubApp) set() bool {
	return a.id != "" || a.installation != "" || a.owner != "" || a.key != nil
}

func (a githubApp) validate() error {
	if !a.set() {
		return nil
	}
	switch {
	case a.id == "":
		return errors.New("githubAppID is missing")
	case !isNumber(a.id):
		return errors.New("githubAppID is no number")
	case a.installation == "" && a.owner == "":
		return errors.New("githubAppInstallationID or githubAppInstallationOwner is missing")
	case a.installation != "" && a.owner != "":
		return errors.New("githubAppInstallationID and githubAppInstallationOwner exclude each other")
	case a.installation != "" && !isNumber(a.installation):
		return errors.New("githubAppInstallationID is no number")
	case a.owner != "" && !githubAccount.MatchString(a.owner):
		return errors.New("githubAppInstallationOwner is no name of an organisation or user")
	case a.key == nil:
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

func isNumber(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > 0
}

func (a githubApp) api() string {
	if a.baseURL == "" {
		return githubAPI
	}
	return strings.TrimRight(a.baseURL, "/")
}

func (a githubApp) same(b githubApp) bool {
	return a.id == b.id && a.installation == b.installation && a.owner == b.owner && a.baseURL == b.baseURL && bytes.Equal(a.key, b.key)
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
	api := appAPI{client: client, base: a.api(), signed: signed}
	if a.installation == "" {
		if a.installation, err = api.installationOf(ctx, a); err != nil {
			return installationToken{}, err
		}
	}
	response, err := api.do(ctx, http.MethodPost, "/app/installations/"+a.installation+"/access_tokens", `{"permissions":{"contents":"read"}}`)
	if err != nil {
		return installationToken{}, err
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

// appAPI is GitHub's API as an App sees it.
type appAPI struct {
	client       *http.Client
	base, signed string
}

func (g appAPI) do(ctx context.Context, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, g.base+path, strings.NewReader(body))
	if err != nil {
		return nil, errors.New("githubAppBaseURL cannot be read")
	}
	request.Header.Set("Authorization", "Bearer "+g.signed)
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("Content-Type", "application/json")
	response, err := g.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("GitHub App: %w", err)
	}
	return response, nil
}

// installationOf asks for the installation of an owner, who is an organisation
// or a user.
func (g appAPI) installationOf(ctx context.Context, a githubApp) (string, error) {
	for _, kind := range []string{"/orgs/", "/users/"} {
		id, err := g.installationAt(ctx, kind+a.owner+"/installation", a)
		if id != "" || err != nil {
			return id, err
		}
	}
	return "", fmt.Errorf("GitHub App: app %s is not installed for %s", a.id, a.owner)
}

// installationAt answers nothing where there is no installation.
func (g appAPI) installationAt(ctx context.Context, path string, a githubApp) (string, error) {
	response, err := g.do(ctx, http.MethodGet, path, "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", nil
	default:
		return "", appRefusal(response, a)
	}
	var installation struct {
		ID int64 `json:"id"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxSecret)).Decode(&installation); err != nil || installation.ID <= 0 {
		return "", errors.New("GitHub App: the API answers with no installation")
	}
	return strconv.FormatInt(installation.ID, 10), nil
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
