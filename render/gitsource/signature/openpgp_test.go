// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/render/gitsource/signature"
)

func TestOpenPGPKeysThatAreTrusted(t *testing.T) {
	for _, algorithm := range []string{"ed25519", "rsa3072", "nistp256"} {
		t.Run(algorithm, func(t *testing.T) {
			w := newWorkshop(t)
			key := w.openPGP(t, alice, algorithm, "never")
			commit := w.signed(t, key, now.Add(-time.Hour))
			want := signature.Signer{Key: "OpenPGP key " + key, Name: "A <" + alice + ">"}
			trusts(t, parse(t, w.public(t, key)), commit, want)
		})
	}
}

func TestOpenPGPKeysThatAreNot(t *testing.T) {
	w := newWorkshop(t)
	ours, theirs := w.openPGP(t, alice, "ed25519", "never"), w.openPGP(t, mallory, "ed25519", "never")
	keys := parse(t, w.public(t, ours))
	refuses(t, keys, w.commit(t, "commit"), "is not signed")
	refuses(t, keys, w.signed(t, theirs, now.Add(-time.Hour)), "is signed with OpenPGP key "+theirs+", which is not among the trusted keys")
	refuses(t, signature.Keys{}, w.signed(t, ours, now.Add(-time.Hour)), "is not among the trusted keys")

	both := parse(t, "# two people\n"+w.public(t, ours)+"\n"+w.public(t, theirs))
	if both.Len() != 2 {
		t.Errorf("%d keys, want 2", both.Len())
	}
	trusts(t, both, w.signed(t, theirs, now.Add(-time.Hour)), signature.Signer{Key: "OpenPGP key " + theirs, Name: "A <" + mallory + ">"})

	// One armored block may hold several keys.
	block := string(w.gpg(t, now, "--armor", "--export"))
	trusts(t, parse(t, block), w.signed(t, ours, now.Add(-time.Hour)), signature.Signer{Key: "OpenPGP key " + ours, Name: "A <" + alice + ">"})
}

func TestSubkeysSignForTheirKey(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "ed25519", "never")
	w.gpg(t, now.Add(-20*24*time.Hour), "--quick-add-key", key, "ed25519", "sign", "never")
	commit := w.signed(t, key, now.Add(-time.Hour)) // GnuPG takes the newest subkey
	trusts(t, parse(t, w.public(t, key)), commit, signature.Signer{Key: "OpenPGP key " + key, Name: "A <" + alice + ">"})
}

func TestOpenPGPKeyThatExpires(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "ed25519", "31d") // a day after now
	commit := w.signed(t, key, now.Add(-time.Hour))
	keys := parse(t, w.public(t, key))
	trusts(t, keys, commit, signature.Signer{Key: "OpenPGP key " + key, Name: "A <" + alice + ">"})
	if _, err := keys.VerifyCommit(commit, now.Add(48*time.Hour)); err == nil || !strings.Contains(err.Error(), key+" (A <"+alice+">), which is not valid now: it has expired") {
		t.Errorf("err = %v", err)
	}
	// The file is given the key with its new date: the same commit is good.
	w.gpg(t, now, "--quick-set-expire", key, "1y")
	if _, err := parse(t, w.public(t, key)).VerifyCommit(commit, now.Add(48*time.Hour)); err != nil {
		t.Errorf("err = %v", err)
	}
}

func TestSignatureFromTheFuture(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "ed25519", "never")
	refuses(t, parse(t, w.public(t, key)), w.signed(t, key, now.Add(24*time.Hour)), "that is not valid now")
}

func TestOpenPGPKeyThatIsRevoked(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "ed25519", "never")
	before := parse(t, w.public(t, key))
	commit := w.signed(t, key, now.Add(-time.Hour))

	revocation := bytes.Replace(w.run(t, "cat", w.home+"/openpgp-revocs.d/"+key+".rev"), []byte(":-----BEGIN"), []byte("-----BEGIN"), 1)
	w.write(t, "revocation", revocation)
	w.gpg(t, now, "--import", "revocation")
	refuses(t, parse(t, w.public(t, key)), commit, "OpenPGP key "+key+" (A <"+alice+">), which is revoked")
	// A file that is not renewed does not know.
	trusts(t, before, commit, signature.Signer{Key: "OpenPGP key " + key, Name: "A <" + alice + ">"})
}

func TestHashThatCanBeForged(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "rsa2048", "never")
	commit := w.commit(t, "-c", "gpg.program="+w.gpgProgram(t, now.Add(-time.Hour), "--digest-algo SHA1"), "-c", "user.signingKey="+key, "commit", "-S")
	refuses(t, parse(t, w.public(t, key)), commit, "is signed over SHA-1")
}

func TestShortKeyIsNoKey(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "rsa1024", "never")
	_, err := signature.ParseKeys([]byte("# old\n" + w.public(t, key)))
	if err == nil || err.Error() != "line 2: OpenPGP key "+key+": 1024 bits are too few: 2048 are needed" {
		t.Errorf("err = %v", err)
	}
}

func TestCommitThatWasChanged(t *testing.T) {
	w := newWorkshop(t)
	key, sshKey := w.openPGP(t, alice, "ed25519", "never"), w.sshKey(t)
	keys := parse(t, w.public(t, key)+w.allowed(t, sshKey, "*", ""))
	other := w.signed(t, key, now.Add(-2*time.Hour))
	for kind, commit := range map[string][]byte{"OpenPGP": w.signed(t, key, now.Add(-time.Hour)), "SSH": w.sshSigned(t, sshKey)} {
		if _, err := keys.VerifyCommit(commit, now); err != nil {
			t.Fatal(err)
		}
		tree := bytes.SplitN(commit, []byte("\n"), 2)[0]
		for name, changed := range map[string][]byte{
			"message":          bytes.Replace(commit, []byte("Light"), []byte("Night"), 1),
			"line at the end":  append(bytes.Clone(commit), '\n'),
			"cut at the end":   commit[:len(commit)-1],
			"tree":             bytes.Replace(commit, tree, []byte("tree "+strings.Repeat("0", 40)), 1),
			"committer":        bytes.Replace(commit, []byte("committer A"), []byte("committer B"), 1),
			"header more":      bytes.Replace(commit, []byte("author"), []byte("encoding x\nauthor"), 1),
			"parent more":      bytes.Replace(commit, []byte("author"), []byte("parent "+strings.Repeat("0", 40)+"\nauthor"), 1),
			"tree twice":       bytes.Replace(commit, []byte("author"), []byte("tree "+strings.Repeat("0", 40)+"\nauthor"), 1),
			"two signatures":   bytes.Replace(commit, []byte("gpgsig "), append(signatureOf(other), []byte("gpgsig ")...), 1),
			"other signature":  bytes.Replace(commit, signatureOf(commit), signatureOf(other), 1),
			"no signature":     bytes.Replace(commit, signatureOf(commit), nil, 1),
			"empty signature":  bytes.Replace(commit, signatureOf(commit), []byte("gpgsig \n"), 1),
			"half a signature": bytes.Replace(commit, signatureOf(commit), append(signatureOf(commit)[:100:100], '\n'), 1),
			"second block":     bytes.Replace(commit, signatureOf(commit), append(signatureOf(commit), bytes.ReplaceAll(signatureOf(commit), []byte("gpgsig "), []byte(" "))...), 1),
			"nothing":          nil,
			"no headers":       []byte("hello"),
			"continuation":     append([]byte(" "), commit...),
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				if signer, err := keys.VerifyCommit(changed, now); err == nil {
					t.Errorf("trusted %s", signer)
				}
			})
		}
	}
}

// signatureOf is the header of a commit's signature, as it stands there.
func signatureOf(commit []byte) []byte {
	_, rest, _ := bytes.Cut(commit, []byte("\ngpgsig "))
	sig, _, _ := bytes.Cut(rest, []byte("\n\n"))
	return append(append([]byte("gpgsig "), sig...), '\n')
}

// Git itself must agree on what is signed.
func TestCommitsOfEveryShape(t *testing.T) {
	w := newWorkshop(t)
	key := w.openPGP(t, alice, "ed25519", "never")
	keys := parse(t, w.public(t, key))
	program := w.gpgProgram(t, now.Add(-time.Hour), "")
	sign := []string{"-c", "gpg.program=" + program, "-c", "user.signingKey=" + key}
	want := signature.Signer{Key: "OpenPGP key " + key, Name: "A <" + alice + ">"}

	w.commit(t, "commit")
	w.git(t, append(sign, "tag", "-s", "-m", "a tag to merge", "side")...)
	w.git(t, "checkout", "--quiet", "-b", "side-branch", "side")
	w.commit(t, "commit")
	w.git(t, append(sign, "tag", "-s", "-m", "a tag to merge", "side-2")...)
	w.git(t, "checkout", "--quiet", "main")
	w.by(alice, now.Add(-30*time.Minute))
	w.commit(t, "commit")
	w.git(t, append(sign, "merge", "--quiet", "-S", "-m", "merge a signed tag", "side-2")...)
	merge := w.git(t, "cat-file", "commit", "HEAD")
	if !bytes.Contains(merge, []byte("\nmergetag ")) {
		t.Fatalf("the merge holds no tag:\n%s", merge)
	}
	trusts(t, keys, merge, want)

	w.git(t, append(sign, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-S", "--quiet", "--allow-empty", "-m", "f\xfcr alle")...)
	encoded := w.git(t, "cat-file", "commit", "HEAD")
	if !bytes.Contains(encoded, []byte("\nencoding ISO-8859-1\n")) {
		t.Fatalf("the commit has no encoding:\n%s", encoded)
	}
	trusts(t, keys, encoded, want)

	w.git(t, append(sign, "commit", "-S", "--quiet", "--allow-empty", "--allow-empty-message", "-m", "")...)
	trusts(t, keys, w.git(t, "cat-file", "commit", "HEAD"), want)

	// GitHub leaves an empty line behind its signatures.
	last := w.git(t, "cat-file", "commit", "HEAD")
	trusts(t, keys, bytes.Replace(last, []byte("SIGNATURE-----\n\n"), []byte("SIGNATURE-----\n \n\n"), 1), want)

	w.git(t, append(sign, "commit", "-S", "--quiet", "--allow-empty", "-m", "talks of\n\n-----BEGIN PGP SIGNATURE-----\n\nwhat\n-----END PGP SIGNATURE-----")...)
	trusts(t, keys, w.git(t, "cat-file", "commit", "HEAD"), want)
}
