// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"lamplighter.dev/render/sops"
)

func keyFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "keys", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A mounted Secret is a folder of links into a folder that is replaced whole.
func TestMountedSecretIsRead(t *testing.T) {
	dir := t.TempDir()
	mount := func(version string, files map[string]string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(version, filepath.Join(dir, "..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	opens := func(name string) bool {
		t.Helper()
		keys, err := sops.ReadKeys(os.DirFS(dir), ".")
		if err != nil {
			t.Fatal(err)
		}
		c := readCase(t, name)
		_, _, err = keys.Decrypt(c.name, c.data)
		return err == nil
	}
	mount("..1", map[string]string{"age.agekey": keyFile(t, "other.agekey"), "note.txt": "not a key"})
	if opens("secret") || opens("pgp") {
		t.Error("another key opens the file")
	}
	mount("..2", map[string]string{"age.agekey": keyFile(t, "other.agekey") + "\n" + keyFile(t, "age.agekey"), "alice.asc": keyFile(t, "alice.asc")})
	if !opens("secret") || !opens("pgp") {
		t.Error("the new keys do not open the files")
	}
}

func TestKeysAreToldApartByTheirPublicHalves(t *testing.T) {
	age, other, all := testKeys(t, "age.agekey"), testKeys(t, "other.agekey"), testKeys(t)
	if age.ID() == other.ID() || age.ID() == all.ID() || age.ID() != testKeys(t, "age.agekey").ID() {
		t.Error("IDs:", age.ID(), other.ID(), all.ID())
	}
}

// lockedKey is a new key behind a passphrase.
func lockedKey(t *testing.T) string {
	t.Helper()
	e, err := openpgp.NewEntity("a", "", "a@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.EncryptPrivateKeys([]byte("hunter2"), nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PrivateKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SerializePrivateWithoutSigning(w, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func publicKey(t *testing.T) string {
	t.Helper()
	ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(keyFile(t, "alice.asc")))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring[0].Serialize(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestKeysThatCannotBeUsedAreRefusedAndNotQuoted(t *testing.T) {
	identity := strings.Split(strings.TrimSpace(keyFile(t, "age.agekey")), "\n")[2]
	for name, tt := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"no keys":                {fstest.MapFS{"note.txt": {Data: []byte("x")}}, "holds no file whose name ends in .agekey or .asc"},
		"an empty file":          {fstest.MapFS{"a.agekey": {Data: []byte("# nothing\n")}}, "a.agekey: holds no key"},
		"a damaged identity":     {fstest.MapFS{"a.agekey": {Data: []byte("# key\n" + identity[:40] + "\n")}}, "a.agekey: line 2 is no age identity: it should begin with AGE-SECRET-KEY-"},
		"a recipient":            {fstest.MapFS{"a.agekey": {Data: []byte("age1yt3tfqlfrwdwx0z0ynwplcr6qxcxfaqycuprpmy89nr83ltx74tqdpszlw\n")}}, "a.agekey: line 1 is no age identity: it should begin with AGE-SECRET-KEY-"},
		"a plugin's identity":    {fstest.MapFS{"a.agekey": {Data: []byte("AGE-PLUGIN-YUBIKEY-1QQPQZQ\n")}}, "a.agekey: line 1 is no age identity: it should begin with AGE-SECRET-KEY-"},
		"a public key":           {fstest.MapFS{"a.asc": {Data: []byte(publicKey(t))}}, "a.asc: OpenPGP block 1 is no secret key: gpg --export-secret-keys --armor writes one"},
		"half a key":             {fstest.MapFS{"a.asc": {Data: []byte(keyFile(t, "alice.asc")[:600])}}, "a.asc: OpenPGP block 1 cannot be read"},
		"a key and half of one":  {fstest.MapFS{"a.asc": {Data: []byte(keyFile(t, "robert.asc") + keyFile(t, "alice.asc")[:600])}}, "a.asc: OpenPGP block 2 cannot be read"},
		"more than a file holds": {fstest.MapFS{"a.agekey": {Data: make([]byte, 2<<20)}}, "a.agekey: is larger than 1 MiB"},
		"a folder":               {fstest.MapFS{"a.asc": {Mode: fs.ModeDir}}, "a.asc: invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sops.ReadKeys(tt.files, ".")
			if err == nil || err.Error() != tt.want && !strings.HasPrefix(name, "a folder") {
				t.Errorf("err = %v, want %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), identity[20:40]) {
				t.Error("the error quotes the key")
			}
		})
	}
	_, err := sops.ReadKeys(fstest.MapFS{"a.asc": {Data: []byte(lockedKey(t))}}, ".")
	if err == nil || !strings.Contains(err.Error(), "is protected by a passphrase: export it without one") {
		t.Errorf("err = %v", err)
	}
	if _, err := sops.ReadKeys(fstest.MapFS{}, "keys"); err == nil || err.Error() != "file does not exist" {
		t.Errorf("err = %v", err)
	}
}
