// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/render/gitsource/signature"
)

var scripts = regexp.MustCompile("(?s)```sh\n(.*?)```")

// The commands of the guide, as they stand there, make commits and tags that the
// file of keys they make lets pass.
func TestGuideMakesSignaturesThatCount(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guides", "signed-commits.md"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkshop(t)
	w.by(alice, time.Now()) // the commands know no other clock
	w.run(t, "gpg", "--batch", "--quiet", "--passphrase=", "--quick-generate-key", "A <"+alice+">", "ed25519", "sign", "never")
	w.run(t, "mkdir", "-p", w.home+"/.ssh")
	w.run(t, "ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", w.home+"/.ssh/id_ed25519")
	w.git(t, "config", "user.email", alice)
	w.git(t, "config", "user.name", "A")

	kinds := map[string]bool{}
	for _, script := range scripts.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(script[1]) {
			if strings.HasPrefix(line, "kubectl ") || strings.HasPrefix(line, "git push ") {
				continue // there is no cluster here, and no remote
			}
			w.run(t, "bash", "-euo", "pipefail", "-c", line)
		}
		if _, err := os.Stat(filepath.Join(w.dir, "keys")); err != nil {
			continue // no key is listed yet
		}
		file, err := os.ReadFile(filepath.Join(w.dir, "keys"))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := parse(t, string(file)).VerifyCommit(w.commit(t, "commit"), time.Now())
		if err != nil {
			t.Errorf("after\n%s%v", script[1], err)
		}
		kind, _, _ := strings.Cut(signer.Key, " ")
		kinds[kind] = true
		if !strings.Contains(script[1], "git tag") {
			continue
		}
		tag := signature.Tag{Name: "v1.4.0", Commit: strings.TrimSpace(string(w.git(t, "rev-parse", "v1.4.0^{commit}")))}
		if _, err := parse(t, string(file)).VerifyTag(w.git(t, "cat-file", "tag", "v1.4.0"), tag, time.Now()); err != nil {
			t.Errorf("the tag %v", err)
		}
		kinds["tag"] = true
	}
	for _, kind := range []string{"SSH", "OpenPGP", "tag"} {
		if !kinds[kind] {
			t.Errorf("the guide makes no signature of the kind %s", kind)
		}
	}
}
