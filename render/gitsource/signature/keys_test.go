// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"lamplighter.dev/render/gitsource/signature"
)

// aKey is somebody's public key.
const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKN/tBhIWIdjJQUw4JTmsX2Pr1R6SPLM2wmo2EcB5mO4"

func TestFilesOfKeysThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"empty":             {"", "holds no key"},
		"comments only":     {"# nobody\n\n", "holds no key"},
		"prose":             {"hello\n", "line 1: is neither a line of allowed_signers nor part of an OpenPGP block"},
		"no principals":     {"\n" + aKey + "\n", "line 2: holds no SSH public key"},
		"no key":            {"a@example.com namespaces=\"git\"\n", "line 1: holds no SSH public key"},
		"broken key":        {"a@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKN\n", "holds no SSH public key"},
		"other type":        {"a@example.com " + strings.Replace(aKey, "ssh-ed25519", "ssh-rsa", 1), "holds no SSH public key"},
		"cert-authority":    {"*@example.com cert-authority " + aKey, "line 1: cert-authority is not supported: list the keys themselves"},
		"unknown option":    {"a@example.com no-touch-required " + aKey, `the option "no-touch-required" is not known`},
		"option twice":      {`a@example.com namespaces="git",namespaces="file" ` + aKey, "the option namespaces is there twice"},
		"no value":          {`a@example.com valid-after ` + aKey, "the option valid-after has no value in quotes"},
		"empty namespaces":  {`a@example.com namespaces="" ` + aKey, "the option namespaces has no value in quotes"},
		"no quotes":         {`a@example.com namespaces=git ` + aKey, "the option namespaces has no value in quotes"},
		"half a quote":      {`a@example.com namespaces="git` + "\t" + aKey + `"`, "holds no SSH public key"},
		"no date":           {`a@example.com valid-after="soon" ` + aKey, `valid-after: "soon" is no time`},
		"impossible date":   {`a@example.com valid-before="20260230" ` + aKey, `valid-before: "20260230" is no time`},
		"never valid":       {`a@example.com valid-after="20260102",valid-before="20260101" ` + aKey, "the key is never valid"},
		"open quotes":       {`"a@example.com ` + aKey, "quotes of the principals do not end"},
		"open option":       {`a@example.com namespaces="git ` + aKey, "holds no SSH public key"},
		"block without end": {"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nxjMEaA==\n", "line 1: the OpenPGP block has no end"},
		"block of noise":    {"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nxjMEaA==\n-----END PGP PUBLIC KEY BLOCK-----\n", "line 1: the OpenPGP block cannot be read"},
		"empty block":       {"-----BEGIN PGP PUBLIC KEY BLOCK-----\n-----END PGP PUBLIC KEY BLOCK-----\n", "line 1: the OpenPGP block cannot be read"},
		"private key":       {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", "line 1: a private key does not belong here"},
		"private block":     {"# x\n-----BEGIN PGP PRIVATE KEY BLOCK-----\nAAAA\n", "line 2: a private key does not belong here"},
		"two problems":      {"hello\nworld\n", "line 2: is neither"},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := signature.ParseKeys([]byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
			if k.Len() > 0 {
				t.Errorf("%d keys of a file that is refused", k.Len())
			}
		})
	}
}

func TestFilesOfKeysThatAreRead(t *testing.T) {
	for name, file := range map[string]string{
		"a comment after the key": "a@example.com " + aKey + " of Alice",
		"Windows":                 "# keys\r\na@example.com " + aKey + "\r\n",
		"tabs and spaces":         "\t a@example.com \t namespaces=\"git\" \t" + aKey + "  ",
		"quoted":                  `"a@example.com,b@example.com" ` + aKey,
	} {
		t.Run(name, func(t *testing.T) {
			if k := parse(t, file); k.Len() != 1 {
				t.Errorf("%d keys, want 1", k.Len())
			}
		})
	}
}

func TestShortRSAKeyIsNoKey(t *testing.T) {
	w := newWorkshop(t)
	_, err := signature.ParseKeys([]byte(w.allowed(t, w.sshKey(t, "-t", "rsa", "-b", "1024"), alice, "")))
	if err == nil || !strings.Contains(err.Error(), "1024 bits are too few for an RSA key") {
		t.Errorf("err = %v", err)
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("a@example.com " + aKey + "\n"))
	f.Add([]byte(`"*" namespaces="git",valid-after="20260101Z",valid-before="20270101120000" ` + aKey))
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nxjMEaA==\n-----END PGP PUBLIC KEY BLOCK-----\n"))
	f.Add([]byte("*@example.com cert-authority " + aKey))
	f.Fuzz(func(t *testing.T, file []byte) {
		k, err := signature.ParseKeys(file)
		if (err == nil) != (k.Len() > 0) {
			t.Errorf("%d keys, err = %v", k.Len(), err)
		}
	})
}

// lamp signs in the fuzz tests.
func lamp(t testing.TB) (ssh.Signer, signature.Keys) {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(seededKey())
	if err != nil {
		t.Fatal(err)
	}
	return signer, parse(t, "* "+string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

const unsignedCommit = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> 1767225600 +0000\ncommitter A <a@example.com> 1767225600 +0000\n\nmessage\n"

func withSignature(armored []byte) []byte {
	header := "gpgsig " + strings.ReplaceAll(strings.TrimSpace(string(armored)), "\n", "\n ") + "\n"
	return []byte(strings.Replace(unsignedCommit, "\n\n", "\n"+header+"\n", 1))
}

// FuzzSignature looks for a signature that is trusted and that our key did not
// make, or that brings the reader down.
func FuzzSignature(f *testing.F) {
	signer, keys := lamp(f)
	sig, err := sshsig.Sign(strings.NewReader(unsignedCommit), signer, sshsig.HashSHA512, "git")
	if err != nil {
		f.Fatal(err)
	}
	good := withSignature(sshsig.Armor(sig))
	if _, err := keys.VerifyCommit(good, now); err != nil {
		f.Fatal(err)
	}
	f.Add(sig.Marshal())
	f.Add(sig.Marshal()[:60])
	f.Add([]byte("SSHSIG"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		commit := withSignature(pemOf(blob))
		if _, err := keys.VerifyCommit(commit, now); err == nil {
			again, err := sshsig.ParseSignature(blob)
			if err != nil || !bytes.Equal(again.Signature.Blob, sig.Signature.Blob) {
				t.Errorf("trusted %x", blob)
			}
		}
	})
}

// FuzzCommit looks for another commit that passes with the same signature.
func FuzzCommit(f *testing.F) {
	signer, keys := lamp(f)
	sig, err := sshsig.Sign(strings.NewReader(unsignedCommit), signer, sshsig.HashSHA256, "git")
	if err != nil {
		f.Fatal(err)
	}
	good := withSignature(sshsig.Armor(sig))
	f.Add(good)
	f.Add([]byte(unsignedCommit))
	f.Add(bytes.Replace(good, []byte("gpgsig "), []byte("gpgsig-sha256 x\ngpgsig "), 1))
	f.Fuzz(func(t *testing.T, commit []byte) {
		if _, err := keys.VerifyCommit(commit, now); err == nil && stripped(commit) != unsignedCommit {
			t.Errorf("trusted %q", commit)
		}
		if _, err := keys.VerifyTag(commit, signature.Tag{Name: "v1"}, now); err == nil {
			t.Errorf("a tag: %q", commit)
		}
	})
}

var signatureHeaders = regexp.MustCompile(`(?m)^gpgsig(-sha256)? .*\n( .*\n)*`)

// stripped is a commit without its signatures, the slow and obvious way.
func stripped(commit []byte) string {
	headers, body, _ := strings.Cut(string(commit), "\n\n")
	return signatureHeaders.ReplaceAllString(headers+"\n", "") + "\n" + body
}

// FuzzOpenPGP feeds the reader of OpenPGP signatures.
func FuzzOpenPGP(f *testing.F) {
	_, keys := lamp(f)
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\n\niHUEABYKAB0WIQ==\n-----END PGP SIGNATURE-----\n"))
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\nVersion: 1\n\n=AAAA\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if signer, err := keys.VerifyCommit(withSignature(text), now); err == nil {
			t.Errorf("trusted %s", signer)
		} else if errors.Is(err, io.EOF) {
			t.Errorf("err = %v, want our own words", err)
		}
	})
}
