// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// forge is one way in which Git hosts sign what they send.
type forge struct {
	name      string
	signature string // the header that proves knowledge of the secret
	event     string // the header that names the event; "" if every request is a push
	pushes    []string
	ping      string
	// proves compares a signature with the payload's HMAC, or with the secret.
	proves func(signature string, sum, secret []byte) bool
	// once is a header that tells two deliveries of the same payload apart,
	// where that is worth something: a signature covers no header.
	once string
}

// forges are asked in this order, and the first whose header is there decides:
// a wrong signature is not made good by another one. Gitea comes first because
// it sends GitHub's headers too.
//
//   - Gitea, Forgejo: https://docs.gitea.com/usage/webhooks
//   - GitLab: https://docs.gitlab.com/user/project/integrations/webhooks/
//   - GitHub: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
//   - Bitbucket Cloud: https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
//     and Data Center: https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
//   - generic, as Flux's Provider generic-hmac: https://fluxcd.io/flux/components/notification/providers/
var forges = []forge{
	{name: "gitea", signature: "X-Gitea-Signature", event: "X-Gitea-Event", pushes: []string{"push", "create"}, proves: hexSum("")},
	{name: "gitlab", signature: "X-Gitlab-Token", event: "X-Gitlab-Event", pushes: []string{"Push Hook", "Tag Push Hook"}, proves: token, once: "Idempotency-Key"},
	{name: "github", signature: "X-Hub-Signature-256", event: "X-GitHub-Event", pushes: []string{"push"}, ping: "ping", proves: hexSum("sha256=")},
	{name: "bitbucket", signature: "X-Hub-Signature", event: "X-Event-Key", pushes: []string{"repo:push", "repo:refs_changed"}, ping: bitbucketPing, proves: hexSum("sha256=")},
	{name: "generic", signature: "X-Signature", proves: hexSum("sha256=")},
}

// bitbucketPing is what Bitbucket Data Center's "Test connection" sends, without
// a signature even when the webhook has a secret.
const bitbucketPing = "diagnostics:ping"

// forgeOf answers who signs like this, nil if nobody we know does.
func forgeOf(h http.Header) *forge {
	for i := range forges {
		if len(h.Values(forges[i].signature)) > 0 {
			return &forges[i]
		}
	}
	return nil
}

// unsigned is a request without a signature.
func unsigned(h http.Header) delivery {
	if event := h.Get("X-Event-Key"); event == bitbucketPing {
		return delivery{forge: "bitbucket", event: event, result: Ping, why: "reached; a test carries no signature, so the secret is not tested"}
	}
	why := "no signature: this is no webhook that we know"
	for _, f := range forges {
		if f.event != "" && h.Get(f.event) != "" {
			why = "no signature: set the secret in the webhook's settings"
		}
	}
	return delivery{result: Unknown, why: why}
}

func (f *forge) eventOf(h http.Header) string {
	if f.event == "" {
		return ""
	}
	return h.Get(f.event)
}

func (f *forge) isPing(event string) bool { return f.ping != "" && event == f.ping }

func (f *forge) isPush(event string) bool { return f.event == "" || slices.Contains(f.pushes, event) }

// signed says whether the one signature is right.
func (f *forge) signed(h http.Header, sum, secret []byte) bool {
	values := h.Values(f.signature)
	return len(values) == 1 && f.proves(values[0], sum, secret)
}

// key is what two deliveries have in common when one is the other, sent again.
func (f *forge) key(h http.Header, body []byte) memoryKey {
	if f.once == "" {
		return memoryKey(body)
	}
	return sha256.Sum256(append([]byte(h.Get(f.once)), body...))
}

// hexSum compares the payload's HMAC-SHA256 in hexadecimal.
func hexSum(prefix string) func(string, []byte, []byte) bool {
	return func(signature string, sum, _ []byte) bool {
		digits, ok := strings.CutPrefix(signature, prefix)
		if !ok {
			return false
		}
		got, err := hex.DecodeString(digits)
		return err == nil && hmac.Equal(got, sum)
	}
}

// token compares the secret itself. Both are hashed first, so that the time it
// takes does not even tell the length.
func token(signature string, _, secret []byte) bool {
	got, want := sha256.Sum256([]byte(signature)), sha256.Sum256(secret)
	return hmac.Equal(got[:], want[:])
}
