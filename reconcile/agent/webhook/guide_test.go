// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func readGuide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guides", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var answerRow = regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `([a-z_]+)` \\|")

func TestGuideListsEveryAnswer(t *testing.T) {
	documented := map[Result]string{}
	for _, row := range answerRow.FindAllStringSubmatch(readGuide(t), -1) {
		documented[Result(row[2])] = row[1]
	}
	for result, status := range statusOf {
		if got := documented[result]; got != strconv.Itoa(status) {
			t.Errorf("%s: the guide says %q, the receiver %d", result, got, status)
		}
		if (delivery{result: result, why: "why"}).says() == "" {
			t.Errorf("%s is answered with nothing", result)
		}
		delete(documented, result)
	}
	if len(documented) > 0 {
		t.Errorf("the guide knows answers that there are not: %v", documented)
	}
}

func TestGuideNamesEverySignature(t *testing.T) {
	text := readGuide(t)
	for _, f := range forges {
		if !strings.Contains(text, "`"+f.signature+"`") {
			t.Errorf("%s: the guide does not name %s", f.name, f.signature)
		}
	}
}

var script = regexp.MustCompile("(?s)```sh\n(body=.*?)```")

// The commands that sign by hand run as they stand in the guide.
func TestGuideSignsByHand(t *testing.T) {
	found := script.FindStringSubmatch(readGuide(t))
	if found == nil {
		t.Fatal("the guide has no script")
	}
	const secret = "0123456789abcdef0123456789abcdef"
	looks := 0
	r, err := New(Options{
		Secret: func() ([]byte, error) { return []byte(secret), nil },
		Look:   func() { looks++ },
		Now:    time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = Server(r)
	server.Start()
	defer server.Close()

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	setUp := "git init --quiet\ngit -c user.name=a -c user.email=a@example.com commit --quiet --allow-empty -m one\n"
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", setUp+strings.ReplaceAll(found[1], "https://lamplighter.example.com", server.URL))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	server.Close() // waits for the handler
	if err != nil || looks != 1 {
		t.Errorf("looked %d times, %v:\n%s", looks, err, out)
	}
}
