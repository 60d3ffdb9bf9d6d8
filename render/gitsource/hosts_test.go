// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

func TestAllowedHosts(t *testing.T) {
	auth := secret(t, map[string]string{"identity": "x", "known_hosts": "x"})
	for name, tt := range map[string]struct {
		url     string
		allowed string
		want    string // of the error; "" means that it is allowed
	}{
		"anybody":         {"https://git.example.com/fleet.git", "", ""},
		"listed":          {"https://git.example.com/fleet.git", "other.example.com,git.example.com", ""},
		"other letters":   {"https://Git.Example.com/fleet.git", "git.example.COM", ""},
		"any port":        {"https://git.example.com:8443/fleet.git", "git.example.com", ""},
		"port":            {"https://git.example.com:8443/fleet.git", "git.example.com:8443", ""},
		"port understood": {"https://git.example.com/fleet.git", "git.example.com:443", ""},
		"ssh":             {"git@git.example.com:fleet.git", "git.example.com:22", ""},
		"IPv6":            {"https://[2001:db8::1]:8443/fleet.git", "[2001:db8::1]", ""},
		"this machine":    {"/srv/fleet.git", "git.example.com", ""},
		"not listed":      {"https://evil.example.com/fleet.git", "git.example.com", "host evil.example.com is none of --allowed-hosts"},
		"longer":          {"https://git.example.com.evil/fleet.git", "git.example.com", "is none of --allowed-hosts"},
		"below":           {"https://a.git.example.com/fleet.git", "git.example.com", "is none of --allowed-hosts"},
		"other port":      {"https://git.example.com/fleet.git", "git.example.com:8443", "host git.example.com is none of"},
		"ssh, not listed": {"git@evil.example.com:fleet.git", "git.example.com", "host evil.example.com is none of"},
		"a URL":           {"https://git.example.com/fleet.git", "https://git.example.com", `--allowed-hosts "https://git.example.com": write the host alone`},
		"a pattern":       {"https://git.example.com/fleet.git", "*.example.com", "write the host alone"},
		"an empty one":    {"https://git.example.com/fleet.git", "git.example.com,", `--allowed-hosts ""`},
	} {
		t.Run(name, func(t *testing.T) {
			o := gitsource.Options{URL: tt.url}
			if tt.allowed != "" {
				o.AllowedHosts = strings.Split(tt.allowed, ",")
			}
			if strings.HasPrefix(tt.url, "git@") {
				o.Auth = auth
			}
			_, err := gitsource.New(o)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

// A host that somebody else names is not asked either.
func TestAllowedHostsOfOthers(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	git.Repo(t, "fleet").Commit(t, "main", "one", files("one"))
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the stranger is asked for %s", r.URL)
	}))
	defer stranger.Close()
	mux := http.NewServeMux()
	mux.Handle("/fleet.git/", git)
	mux.Handle("/moved.git/info/refs", http.RedirectHandler(stranger.URL+"/fleet.git/info/refs?service=git-upload-pack", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{at.Host}
	if content(t, fetch(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", AllowedHosts: allowed})), "dir/a.yaml") != "one" {
		t.Error("a host that is allowed is not asked")
	}
	fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/moved.git", AllowedHosts: allowed}), "redirects to "+stranger.URL)

	_, key := appKey(t)
	auth := secret(t, map[string]string{
		"githubAppID": "7", "githubAppInstallationID": "8", "githubAppPrivateKey": key, "githubAppBaseURL": stranger.URL + "/api/v3",
	})
	s := newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: auth, AllowedHosts: allowed, Now: time.Now})
	fetchError(t, s, "GitHub App: host "+strings.TrimPrefix(stranger.URL, "http://")+" is none of --allowed-hosts")
}

// A proxy is no host of Git's.
func TestAllowedHostsThroughAProxy(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{TLS: true})
	repo := git.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	key, public := identity(t, "")
	server := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}})
	proxy := startProxy(t, map[string]string{"example.com:443": strings.TrimPrefix(git.URL(), "https://"), "example.com:22": server.Addr()})
	auth := secret(t, map[string]string{
		"ca.crt": string(git.CA(t)), "identity": key, "known_hosts": "example.com " + strings.SplitN(server.KnownHosts(), " ", 2)[1],
	})
	s := newSource(t, gitsource.Options{URL: "git@example.com:fleet.git", Auth: auth, Proxy: proxy, AllowedHosts: []string{"example.com"}})
	if content(t, fetch(t, s), "dir/a.yaml") != "one" {
		t.Error("ssh does not go through the proxy")
	}
	auth = secret(t, map[string]string{"ca.crt": string(git.CA(t))})
	s = newSource(t, gitsource.Options{URL: "https://example.com/fleet.git", Auth: auth, Proxy: proxy, AllowedHosts: []string{"example.com"}})
	if content(t, fetch(t, s), "dir/a.yaml") != "one" {
		t.Error("https does not go through the proxy")
	}
}
