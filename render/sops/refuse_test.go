// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lamplighter.dev/render/sops"
)

// What a file says in the clear and in its values, which no error may.
var said = regexp.MustCompile(`s3cr3t|hunter2|AGE-SECRET|BEGIN`)

func TestWhoseKeyIsLackingIsSaid(t *testing.T) {
	const (
		age   = "age1[0-9a-z]{58}"
		print = "[0-9A-F]{40}"
		lacks = ", and there is no such key among the decryption keys$"
	)
	for name, want := range map[string]string{
		"secret":   "^is encrypted for age " + age + lacks,
		"dotenv":   "^is encrypted for age " + age + lacks,
		"binary":   "^is encrypted for age " + age + lacks,
		"pgp":      "^is encrypted for PGP " + print + lacks,
		"two-keys": "^is encrypted for age " + age + ", age " + age + ", PGP " + print + lacks,
		"groups":   "^needs keys of 2 groups, and these open 0: is encrypted for age " + age + lacks,
		"kms":      "^is encrypted for AWS KMS arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab, and only age and PGP keys are used: encrypt it for one with sops updatekeys$",
	} {
		for _, keys := range []sops.Keys{{}, testKeys(t, "alice.asc"), testKeys(t, "age.agekey")} {
			c := readCase(t, name)
			plain, values, err := keys.Decrypt(c.name, c.data)
			if err == nil {
				continue // it is the one
			}
			if plain != nil || values != nil {
				t.Errorf("%s: answers something beside an error", name)
			}
			if keys.ID() == (sops.Keys{}).ID() && !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%s: err = %v, want %s", name, err, want)
			}
		}
	}
}

// Each of these is done to a file after it was encrypted.
func TestFilesThatWereChangedAreRefused(t *testing.T) {
	swap := func(a, b string) func(string) string {
		return func(s string) string {
			return strings.NewReplacer(a, b, b, a).Replace(s)
		}
	}
	set := func(pattern, with string) func(string) string {
		return func(s string) string { return regexp.MustCompile(pattern).ReplaceAllString(s, with) }
	}
	const mac = "was changed after it was encrypted: its MAC does not match; edit it with sops"
	for name, tt := range map[string]struct {
		file   string
		change func(string) string
		want   string
	}{
		"a clear value":             {"secret", set("kube-system", "default"), mac},
		"a value that is clear now": {"secret", set(`password: ENC\[[^\]]*\]`, "password: hunter2"), "stringData.password: is not encrypted, and by the rules of this file it should be: encrypt it again"},
		"a number that is clear":    {"whole", set(`(?m)^int: .*$`, "int: 42"), "int: is not encrypted, and by the rules of this file it should be: encrypt it again"},
		"two values swapped":        {"secret", swap("password:", "number:"), "stringData.number: was changed after it was encrypted; edit it with sops"},
		"a value less":              {"secret", set(`(?m)^    number: .*\n`, ""), mac},
		"a value more":              {"secret", set(`(?m)^type: Opaque$`, "type: Opaque\nextra: hunter2"), mac},
		"a document less":           {"documents", set(`(?s)\n---\n.*`, "\n"), mac},
		"documents swapped": {"documents", func(s string) string {
			a, b, _ := strings.Cut(s, "\n---\n")
			return b + "---\n" + a + "\n"
		}, mac},
		"no MAC":                     {"mac-only-encrypted", set(`(?m)^    mac: .*$`, `    mac: ""`), mac},
		"another MAC":                {"secret", set(`mac: ENC\[AES256_GCM,data:..`, "mac: ENC[AES256_GCM,data:AA"), "sops.mac: was changed after it was encrypted; edit it with sops"},
		"another time":               {"secret", set(`lastmodified: "2026`, `lastmodified: "2025`), "sops.mac: was changed after it was encrypted; edit it with sops"},
		"MAC over all instead":       {"mac-only-encrypted", set(`mac_only_encrypted: true`, `mac_only_encrypted: false`), mac},
		"another rule":               {"secret", set(`encrypted_regex: .*`, `encrypted_regex: ^nothing$`), mac},
		"two rules":                  {"secret", set(`(encrypted_regex: .*)`, "$1\n    encrypted_suffix: x"), "sops: has more than one rule of what is encrypted"},
		"a rule that is none":        {"secret", set(`encrypted_regex: .*`, "encrypted_regex: ("), "sops.encrypted_regex: is no regular expression"},
		"a time that is none":        {"secret", set(`lastmodified: .*`, "lastmodified: hunter2"), "sops.lastmodified: is no time"},
		"a damaged data key":         {"secret", set(`(-----BEGIN AGE ENCRYPTED FILE-----\n +.{30}).`, "$1!"), "its data key for age age1"},
		"more groups than there are": {"groups", set(`shamir_threshold: 2`, "shamir_threshold: 9"), "sops.shamir_threshold: is 9, and there are 3 groups of keys"},
		"a threshold below one":      {"groups", set(`shamir_threshold: 2`, "shamir_threshold: -1"), "sops.shamir_threshold: is -1, and there are 3 groups of keys"},
		"a data key that is huge":    {"secret", set(`(-----BEGIN AGE ENCRYPTED FILE-----\n +)`, "${1}"+strings.Repeat("A", 16<<10)), "is larger than 16 KiB"},
		"keys without end":           {"secret", set(`(?m)^    age:$`, "    age:\n"+strings.Repeat("        - recipient: x\n          enc: x\n", 1024)), "names 1025 keys in all its documents, and 1024 are the most that are tried: split it"},
		"documents without end":      {"secret", documentsWithoutEnd, "names 1025 keys in all its documents, and 1024 are the most that are tried: split it"},
		"a file without end":         {"secret", set(`type: Opaque`, "type: Opaque\nmore: "+strings.Repeat("x", 2<<20)), "is larger than 2 MiB, and that is the most that is decrypted: split it"},
		"maps without end":           {"secret", set(`type: Opaque`, "type: Opaque\nmore: "+strings.Repeat("{a: ", 200)+"1"+strings.Repeat("}", 200)), "is nested more than 128 deep"},
		"lists without end":          {"secret", set(`type: Opaque`, "type: Opaque\nmore: "+strings.Repeat("[", 200)+"1"+strings.Repeat("]", 200)), "is nested more than 128 deep"},
		"a rule without end":         {"secret", set(`encrypted_regex: .*`, "encrypted_regex: '"+strings.Repeat("x{900}", 2)+"'"), "sops.encrypted_regex: is too large a regular expression"},
		"no keys":                    {"secret", set(`(?s)    age:.*?(    lastmodified)`, "$1"), "sops: names no keys"},
		"an alias":                   {"secret", set(`type: Opaque`, "type: &a Opaque\nmore: *a"), "is an alias, and SOPS writes none: encrypt the file again"},
		"a key that is no text":      {"secret", set(`type: Opaque`, "1: Opaque"), "the key is not text: quote it"},
		"JSON with a clear key":      {"json", set(`"name": "ENC[^"]*"`, `"name": "hunter2"`), "metadata.name: is not encrypted, and by the rules of this file it should be: encrypt it again"},
		"a wrapper with more":        {"binary", set(`"data":`, `"more": 1, "data":`), "is JSON of which only data may be set, as SOPS wraps a file: give it the extension .json if it is JSON itself"},
		"a line of dotenv":           {"dotenv", set(`(?m)^TOKEN=.*$`, "TOKEN"), "line 2 is no KEY=VALUE"},
		"a key with a line's end":    {"dotenv", set(`(?m)^TOKEN=`, "\rTOKEN="), `"\rTOKEN": was changed after it was encrypted; edit it with sops`},
		"a value of dotenv":          {"dotenv", set(`PLAIN_unencrypted=x`, "PLAIN_unencrypted=y"), mac},
		"a value of INI":             {"ini", set(`x_unencrypted(\s*)= y`, "x_unencrypted = z"), mac},
		"a section of INI":           {"ini", set(`\[other\]`, "[another]"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := readCase(t, tt.file)
			changed := tt.change(string(c.data))
			if changed == string(c.data) {
				t.Fatal("nothing is changed")
			}
			plain, _, err := testKeys(t).Decrypt(c.name, []byte(changed))
			if tt.want == "" {
				if err != nil {
					t.Errorf("err = %v, though no MAC covers it", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %s\n%s", err, tt.want, plain)
			}
			if err != nil && (said.MatchString(err.Error()) || strings.ContainsAny(err.Error(), "\r\n")) {
				t.Errorf("the error shows too much: %v", err)
			}
		})
	}
}

func TestOtherFilesAreLeftAsTheyAre(t *testing.T) {
	for name, text := range map[string]string{
		"empty.yaml":    "",
		"plain.yaml":    "kind:   ConfigMap # sops is not used here\n",
		"about.yaml":    "data: {about: 'sops writes ENC[AES256_GCM,data:...]'}\n",
		"broken.yaml":   "sops: [ENC[AES256_GCM,data:\n",
		"broken.json":   "{\"sops\": \"ENC[AES256_GCM,data:",
		"list.json":     "[\"sops\", \"ENC[AES256_GCM,data:\"]",
		"notes.txt":     "sops: ENC[AES256_GCM,data:\n- x: [",
		"agent.env":     "A=sops ENC[AES256_GCM,data:\n",
		"agent.ini":     "[agent]\nabout = sops ENC[AES256_GCM,data:\n",
		"metadata.yaml": "sops: {kms: [], about: 'ENC[AES256_GCM,data:'}\n",
	} {
		plain, values, err := testKeys(t).Decrypt(name, []byte(text))
		if err != nil || values != nil || !bytes.Equal(plain, []byte(text)) {
			t.Errorf("%s: %q, %q, %v", name, plain, values, err)
		}
	}
}

// documentsWithoutEnd repeats a document, each time as if it had been encrypted
// anew.
func documentsWithoutEnd(s string) string {
	var all strings.Builder
	for i := range 1025 {
		mac := fmt.Sprintf("mac: ENC[AES256_GCM,data:%d,", i)
		all.WriteString(regexp.MustCompile(`mac: ENC\[AES256_GCM,data:[^,]*,`).ReplaceAllString(s, mac) + "---\n")
	}
	return all.String()
}

// Documents that were encrypted one by one may be put into one file, beside
// others that are not encrypted.
func TestDocumentsOfSeveralFilesAreRead(t *testing.T) {
	a, b := readCase(t, "secret"), readCase(t, "mac-only-encrypted")
	const clear = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: clear}\n"
	data := string(a.data) + "---\n" + clear + "---\n" + string(b.data)
	plain, _, err := testKeys(t).Decrypt("all.yaml", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "all.yaml", []byte(string(a.want)+"---\n"+clear+"---\n"+string(b.want)), plain)
}

// FuzzDecrypt reads whatever begins as a file of SOPS. It never panics, and an
// error is one line that shows no value.
func FuzzDecrypt(f *testing.F) {
	for _, name := range caseNames(f) {
		c := readCase(f, name)
		f.Add(c.name, c.data)
	}
	f.Add("a.env", []byte("sops_mac=ENC[AES256_GCM,data:\nsops_age__list_0__map_enc__list_1=\n"))
	f.Add("a.yaml", []byte("a: &a [*a]\nsops: {mac: 'ENC[AES256_GCM,data:', age: [{recipient: x, enc: y}], lastmodified: 2026-01-01T00:00:00Z}\n"))
	keys := testKeys(f)
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if len(data) > 16<<10 {
			return
		}
		plain, values, err := keys.Decrypt(name, data)
		switch {
		case err != nil && (plain != nil || values != nil || strings.ContainsAny(err.Error(), "\n\r")):
			t.Errorf("%q, %q, %q", plain, values, err)
		case err != nil && said.MatchString(err.Error()) && !said.Match(data):
			t.Errorf("the error shows too much: %v", err)
		case err == nil && values == nil && !bytes.Equal(plain, data) && !bytes.Contains(data, []byte("mac")):
			t.Error("a file that was not encrypted is changed")
		}
	})
}
