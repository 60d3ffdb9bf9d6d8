// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"
)

// example is a Secret of the guide and the flags below it.
type example struct {
	section string
	keys    map[string]string
	url     string
}

var gitFlag = regexp.MustCompile(`(?m)^- --git=(\S+)$`)

func guideExamples(t *testing.T) []example {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guides/git.md")
	if err != nil {
		t.Fatal(err)
	}
	var examples []example
	for _, section := range strings.Split(string(guide), "\n## ")[1:] {
		name, _, _ := strings.Cut(section, "\n")
		var keys map[string]string
		for _, block := range strings.Split(section, "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			var secret struct {
				Kind       string
				StringData map[string]string
			}
			if err := yaml.Unmarshal([]byte(block), &secret); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if secret.Kind == "Secret" {
				keys = secret.StringData
				continue
			}
			flag := gitFlag.FindStringSubmatch(block)
			if flag == nil || keys == nil {
				t.Fatalf("%s: flags without a Secret before them, or without --git:\n%s", name, block)
			}
			examples = append(examples, example{name, keys, flag[1]})
			keys = nil
		}
	}
	return examples
}

// readable puts what can be read where the guide has three dots.
func readable(t *testing.T) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	rsaPEM := block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	return map[string]string{
		"ca.crt": block("CERTIFICATE", certificate), "tls.crt": block("CERTIFICATE", certificate), "tls.key": rsaPEM,
		"githubAppPrivateKey": rsaPEM, "identity": rsaPEM, "ssh-privatekey": rsaPEM,
	}
}

// Every Secret of the guide is complete for the URL below it, and none of its
// keys is there for nothing.
func TestSecretsOfTheGuideAreRead(t *testing.T) {
	examples := guideExamples(t)
	sections := map[string]bool{}
	values := readable(t)
	host := sshKey(t)
	usable := func(e example, without string) error {
		dir := t.TempDir()
		for key, value := range e.keys {
			if other, ok := values[key]; ok {
				value = other
			}
			if key == "known_hosts" {
				value = strings.Fields(value)[0] + " " + string(ssh.MarshalAuthorizedKey(host))
			}
			if key == without {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return usableFor(Options{URL: e.url, Auth: dir})
	}
	for _, e := range examples {
		sections[e.section] = true
		if err := usable(e, ""); err != nil {
			t.Errorf("%s, %s: %v", e.section, e.url, err)
		}
		for key := range e.keys {
			optional := key == "ca.crt" || key == "githubAppBaseURL" || key == "password" && e.keys["ssh-privatekey"] != ""
			if err := usable(e, key); err == nil && !optional {
				t.Errorf("%s: nobody misses %s", e.section, key)
			}
		}
	}
	for _, want := range []string{"GitHub", "GitHub App", "GitLab", "Gitea and Forgejo", "Bitbucket", "Azure DevOps", "AWS CodeCommit", "Any server with ssh", "A client certificate"} {
		if !sections[want] {
			t.Errorf("the guide has no example for %s", want)
		}
	}
}

// usableFor goes as far as one gets without the network.
func usableFor(o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	at, err := parseURL(o.URL)
	if err != nil {
		return err
	}
	if at.scheme == "ssh" {
		_, err := (&sshRemote{at, o}).config()
		return err
	}
	c, err := readCredentials(o.Auth)
	if err != nil {
		return err
	}
	return c.forHTTP()
}

// What the guide says of bounds and refs is what is in force.
func TestGuideTellsTheBounds(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/git.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(guide)), " ")
	l := Limits{}.withDefaults()
	for _, want := range []string{
		size(l.Pack) + " as sent", size(l.Tree) + " unpacked", size(l.Object) + " per file", "200,000 files", "at most 20 and three levels deep",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the guide does not say %q", want)
		}
	}
	if l.Files != 200_000 || maxSubmodules != 20 || maxSubmoduleLevels != 3 {
		t.Error("the bounds are not those of the guide")
	}
	_, table, _ := strings.Cut(string(guide), "| `--ref` | follows |\n|---|---|\n")
	rows := regexp.MustCompile("(?m)^\\| `([^|]*)`[^|]*\\| .*$").FindAllStringSubmatch(table, -1)
	if len(rows) < 4 {
		t.Errorf("the table of refs has %d rows", len(rows))
	}
	for _, row := range rows {
		for _, ref := range strings.Split(row[1], "`, `") {
			if _, err := parseRef(ref); err != nil {
				t.Errorf("%s: %v", ref, err)
			}
		}
	}
}

// The messages that the runbook explains are messages that there are.
func TestRunbookQuotesMessages(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, pattern := range []string{"*.go", "../../reconcile/agent/forward.go", "../../reconcile/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(data)
		}
	}
	_, table, _ := strings.Cut(string(runbook), "| message | do |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) < 10 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			if !strings.Contains(sources.String(), message[1]) && message[1] != "dial:" { // the standard library's
				t.Errorf("nothing says %q", message[1])
			}
		}
	}
}
