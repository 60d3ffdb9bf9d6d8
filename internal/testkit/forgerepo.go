// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// ForgeUser is an account on a Forge.
type ForgeUser struct{ Name, Password string }

// ForgeRepo is a private repository on a Forge.
type ForgeRepo struct {
	forge *Forge
	owner ForgeUser
	name  string
}

// User makes an account.
func (f *Forge) User(t testing.TB, name string) ForgeUser {
	t.Helper()
	u := ForgeUser{Name: name, Password: "the password of " + name}
	f.call(t, f.admin, http.MethodPost, "/admin/users", fields{
		"username": u.Name, "password": u.Password, "email": name + "@example.com", "must_change_password": false,
	}, nil)
	return u
}

// Token makes an access token of a user for some scopes, such as read:repository.
func (f *Forge) Token(t testing.TB, u ForgeUser, scopes ...string) string {
	t.Helper()
	var made struct {
		Token string `json:"sha1"`
	}
	f.call(t, u, http.MethodPost, "/users/"+u.Name+"/tokens", fields{"name": rand.Text(), "scopes": scopes}, &made)
	return made.Token
}

// Repo makes an empty repository.
func (f *Forge) Repo(t testing.TB, owner ForgeUser, name string) *ForgeRepo {
	t.Helper()
	f.call(t, owner, http.MethodPost, "/user/repos", fields{"name": name, "private": true, "default_branch": "main"}, nil)
	return &ForgeRepo{forge: f, owner: owner, name: name}
}

// URL is where clients find the repository over https.
func (r *ForgeRepo) URL() string { return r.forge.URL() + "/" + r.path() + ".git" }

// SSH is where clients find it over ssh.
func (r *ForgeRepo) SSH() string {
	return "ssh://git@" + address(r.forge.ssh) + "/" + r.path() + ".git"
}

func (r *ForgeRepo) path() string { return r.owner.Name + "/" + r.name }

// Push pushes from a repository as the owner does.
func (r *ForgeRepo) Push(t testing.TB, from *GitRepo, refspecs ...string) {
	t.Helper()
	login := base64.StdEncoding.EncodeToString([]byte(r.owner.Name + ":" + r.owner.Password))
	from.Git(t, append([]string{
		"-c", "http.sslCAInfo=" + filepath.Join(r.forge.dir, "cert.pem"), "-c", "http.extraHeader=Authorization: Basic " + login,
		"push", "--quiet", r.URL(),
	}, refspecs...)...)
}

// Invite lets a user read.
func (r *ForgeRepo) Invite(t testing.TB, u ForgeUser) {
	t.Helper()
	r.call(t, http.MethodPut, "/collaborators/"+u.Name, fields{"permission": "read"}, nil)
}

// DeployKey lets whoever has a key read.
func (r *ForgeRepo) DeployKey(t testing.TB, key ssh.PublicKey) {
	t.Helper()
	r.call(t, http.MethodPost, "/keys", fields{"title": "agent", "key": string(ssh.MarshalAuthorizedKey(key)), "read_only": true}, nil)
}

// DefaultBranch names the branch that clones check out.
func (r *ForgeRepo) DefaultBranch(t testing.TB, branch string) {
	t.Helper()
	r.call(t, http.MethodPatch, "", fields{"default_branch": branch}, nil)
}

// Protect lets nobody push to a branch: it takes a pull request.
func (r *ForgeRepo) Protect(t testing.TB, branch string) {
	t.Helper()
	r.call(t, http.MethodPost, "/branch_protections", fields{"rule_name": branch, "enable_push": false}, nil)
}

// PullRequest proposes a branch for another, and answers its number.
func (r *ForgeRepo) PullRequest(t testing.TB, from, into string) int {
	t.Helper()
	var opened struct {
		Number int `json:"number"`
	}
	Eventually(t, time.Minute, func(ctx context.Context) error { // the forge looks at what was pushed a little later
		return r.forge.try(ctx, r.owner, http.MethodPost, "/repos/"+r.path()+"/pulls", fields{"head": from, "base": into, "title": from}, &opened)
	})
	return opened.Number
}

// Merge merges a pull request.
func (r *ForgeRepo) Merge(t testing.TB, number int) {
	t.Helper()
	Eventually(t, time.Minute, func(ctx context.Context) error { // the forge looks for conflicts first
		return r.forge.try(ctx, r.owner, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/merge", r.path(), number), fields{"Do": "merge"}, nil)
	})
}

// Rename gives the repository another name. The old one leads to it.
func (r *ForgeRepo) Rename(t testing.TB, name string) {
	t.Helper()
	r.call(t, http.MethodPatch, "", fields{"name": name}, nil)
	r.name = name
}

// Head is the hash of a branch.
func (r *ForgeRepo) Head(t testing.TB, branch string) string {
	t.Helper()
	var found struct {
		Commit struct {
			ID string `json:"id"`
		} `json:"commit"`
	}
	r.call(t, http.MethodGet, "/branches/"+branch, nil, &found)
	return found.Commit.ID
}

// Hook makes a webhook and answers its number.
func (r *ForgeRepo) Hook(t testing.TB, url, secret string, events ...string) int {
	t.Helper()
	var made struct {
		ID int `json:"id"`
	}
	r.call(t, http.MethodPost, "/hooks", fields{
		"type": "gitea", "active": true, "events": events,
		"config": fields{"url": url, "content_type": "json", "secret": secret},
	}, &made)
	return made.ID
}

// TestDelivery does what the button of a webhook does.
func (r *ForgeRepo) TestDelivery(t testing.TB, hook int) {
	t.Helper()
	r.call(t, http.MethodPost, fmt.Sprintf("/hooks/%d/tests", hook), nil, nil)
}

// Delivery is what became of one webhook, as the forge shows it.
type Delivery struct {
	Event  string
	Status int // 0 if nobody answered
	Body   string
}

// delivered finds them in the page of a webhook: there is no API for it.
var delivered = regexp.MustCompile(`(?s)<span class="ui \w+ label">(\d+)</span>.*?X-Gitea-Event:</strong> (\w+).*?<h5>Body</h5>\s*<pre class="webhook-info">(.*?)</pre>`)

// Deliveries are those of a webhook that are over, the newest first.
func (r *ForgeRepo) Deliveries(t testing.TB, hook int) []Delivery {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/%s/settings/hooks/%d", r.forge.URL(), r.path(), hook), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-WEBAUTH-USER", r.owner.Name) // as a proxy that has asked for a password
	page, err := r.forge.ask(request)
	if err != nil {
		t.Fatalf("the page of webhook %d: %v", hook, err)
	}
	var found []Delivery
	for _, match := range delivered.FindAllStringSubmatch(string(page), -1) {
		code, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, Delivery{Event: match[2], Status: code, Body: html.UnescapeString(strings.TrimSpace(match[3]))})
	}
	return found
}

type fields map[string]any

func (r *ForgeRepo) call(t testing.TB, method, path string, body fields, answer any) {
	t.Helper()
	r.forge.call(t, r.owner, method, "/repos/"+r.path()+path, body, answer)
}

// call asks the forge's API for something as a user.
func (f *Forge) call(t testing.TB, u ForgeUser, method, path string, body fields, answer any) {
	t.Helper()
	if err := f.try(t.Context(), u, method, path, body, answer); err != nil {
		t.Fatalf("ask the forge: %v", err)
	}
}

func (f *Forge) try(ctx context.Context, u ForgeUser, method, path string, body fields, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, f.URL()+"/api/v1"+path, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.SetBasicAuth(u.Name, u.Password)
	request.Header.Set("Content-Type", "application/json")
	text, err := f.ask(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// ask answers what the forge does, or its words of refusal.
func (f *Forge) ask(request *http.Request) ([]byte, error) {
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}
