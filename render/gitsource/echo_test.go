// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"lamplighter.dev/render/gitsource"
)

// What a server says goes into logs and status. Credentials that it says back
// are taken out, also as they were sent.
func TestServerThatEchoesCredentials(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_ = pktline.NewEncoder(w).EncodeString("ERR who is " + r.Header.Get("Authorization") + " with " + password + "?\n")
	}))
	defer server.Close()
	for name, files := range map[string]map[string]string{
		"password": {"username": "agent", "password": "open-sesame"},
		"bearer":   {"bearerToken": "open-sesame"},
	} {
		t.Run(name, func(t *testing.T) {
			err := fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: secret(t, files)}), "who is ")
			for _, hidden := range []string{"open-sesame", base64.StdEncoding.EncodeToString([]byte("agent:open-sesame"))} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("err = %v", err)
				}
			}
		})
	}
}
