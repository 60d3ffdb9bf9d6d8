// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
)

// TestProxyOfTheEnvironment fetches in processes of their own: Go reads the
// environment once.
func TestProxyOfTheEnvironment(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{TLS: true})
	git.Repo(t, "fleet").Commit(t, "main", "one", files("one"))
	authorities := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authorities, git.CA(t), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := startProxy(t, map[string]string{"example.com:443": strings.TrimPrefix(git.URL(), "https://")})
	withPassword := strings.Replace(proxy, "http://", "http://agent:hunter2@", 1)
	const known, unknown = "https://example.com/fleet.git", "https://git.invalid/fleet.git"
	for name, tt := range map[string]struct {
		url         string
		environment []string
		want        string // of the error; "" means that it reads
		wantNot     string
	}{
		"through it":         {known, []string{"HTTPS_PROXY=" + proxy}, "", ""},
		"in small letters":   {known, []string{"https_proxy=" + proxy}, "", ""},
		"with a password":    {known, []string{"HTTPS_PROXY=" + withPassword}, "", ""},
		"others around it":   {known, []string{"HTTPS_PROXY=" + proxy, "NO_PROXY=.invalid"}, "", ""},
		"not known there":    {unknown, []string{"HTTPS_PROXY=" + withPassword}, "Bad Gateway", ""},
		"around it":          {unknown, []string{"HTTPS_PROXY=" + proxy, "NO_PROXY=.invalid"}, "git.invalid", "Bad Gateway"},
		"for http alone":     {unknown, []string{"HTTP_PROXY=" + proxy}, "git.invalid", "Bad Gateway"},
		"not there":          {known, []string{"HTTPS_PROXY=http://agent:hunter2@127.0.0.1:1"}, "connection refused", ""},
		"no URL":             {known, []string{"HTTPS_PROXY=http://agent:hunter2@proxy:port"}, "proxyconnect", ""},
		"no URL, no slashes": {known, []string{"HTTPS_PROXY=agent:hunter2@[proxy"}, "proxyconnect", ""},
	} {
		t.Run(name, func(t *testing.T) {
			none := []string{"HTTPS_PROXY=", "HTTP_PROXY=", "NO_PROXY=", "https_proxy=", "http_proxy=", "no_proxy=", "SSL_CERT_FILE=" + authorities}
			out, err := fetchApart(t, tt.url, append(none, tt.environment...)...)
			if strings.Contains(out, "hunter2") {
				t.Errorf("the password is shown: %s", out)
			}
			if (err == nil) != (tt.want == "") || !strings.Contains(out, tt.want) || tt.wantNot != "" && strings.Contains(out, tt.wantNot) {
				t.Errorf("%v: %s; want %q", err, out, tt.want)
			}
		})
	}
}
