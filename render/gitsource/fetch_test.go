// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

func newSource(t testing.TB, o gitsource.Options) *gitsource.Source {
	t.Helper()
	s, err := gitsource.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fetch(t testing.TB, s *gitsource.Source) gitsource.Commit {
	t.Helper()
	c, err := s.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fetchError wants an error of one line.
func fetchError(t testing.TB, s *gitsource.Source, want string) error {
	t.Helper()
	c, err := s.Fetch(t.Context())
	switch {
	case err == nil:
		t.Fatalf("got commit %s, want error %q", c.Hash, want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("err = %v, want %q", err, want)
	case strings.ContainsAny(err.Error(), "\n\r"):
		t.Errorf("not one line: %q", err)
	}
	return err
}

func content(t testing.TB, c gitsource.Commit, name string) string {
	t.Helper()
	data, err := fs.ReadFile(c.Tree, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func files(content string) map[string]string {
	return map[string]string{"dir/a.yaml": content, "README.md": "hello"}
}

// eachRemote tests both ways to a repository, which behave alike. publish brings
// what was committed to where url points.
func eachRemote(t *testing.T, test func(t *testing.T, repo *testkit.GitRepo, url string, publish func())) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	t.Run("http", func(t *testing.T) {
		repo := server.Repo(t, "fleet")
		test(t, repo, repo.URL(), func() {})
	})
	t.Run("file", func(t *testing.T) {
		repo := server.Repo(t, "mirrored")
		dir := filepath.Join(t.TempDir(), "mirror.git")
		git(t, "clone", "--quiet", "--mirror", repo.URL(), dir)
		test(t, repo, "file://"+dir, func() { git(t, "-C", dir, "fetch", "--quiet", "--prune") })
	})
}

func git(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args[0], err, out)
	}
}

func TestCommitSaysWhatItIs(t *testing.T) {
	eachRemote(t, func(t *testing.T, repo *testkit.GitRepo, url string, publish func()) {
		hash := repo.Commit(t, "main", "Light the lamps\n\nAll of them.", files("one"))
		publish()
		c := fetch(t, newSource(t, gitsource.Options{URL: url}))
		if c.Hash != hash || c.Branch != "main" || c.Author != "Lamp Lighter" || c.Subject != "Light the lamps" ||
			!c.When.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || c.When.Location() != time.UTC {
			t.Errorf("commit = %+v", c)
		}
		if got := content(t, c, "dir/a.yaml"); got != "one" {
			t.Errorf("content = %q", got)
		}
	})
}

const noCommit = "0000000000000000000000000000000000000000"

func TestBranchThatMoves(t *testing.T) {
	eachRemote(t, func(t *testing.T, repo *testkit.GitRepo, url string, publish func()) {
		first := repo.Commit(t, "main", "one", files("one"))
		publish()
		s := newSource(t, gitsource.Options{URL: url})
		one := fetch(t, s)

		repo.Commit(t, "main", "two", files("two"))
		publish()
		two := fetch(t, s)
		if content(t, two, "dir/a.yaml") != "two" || content(t, one, "dir/a.yaml") != "one" {
			t.Error("the new commit has the new content, the old one the old")
		}

		repo.ForcePush(t, "main", first)
		publish()
		if back := fetch(t, s); back.Hash != first || content(t, back, "dir/a.yaml") != "one" {
			t.Errorf("after a forced push to an older commit: %+v", back)
		}

		repo.Commit(t, "develop", "elsewhere", files("develop"))
		repo.ForcePush(t, "main", noCommit) // deletes the branch
		publish()
		fetchError(t, s, "no branch or tag main: there is develop")
		if content(t, two, "dir/a.yaml") != "two" {
			t.Error("the last good commit is not readable")
		}

		// A new branch of that name has a history of its own.
		hash := repo.Commit(t, "main", "again", map[string]string{"b.yaml": "again"})
		publish()
		if again := fetch(t, s); again.Hash != hash || content(t, again, "b.yaml") != "again" {
			t.Errorf("after the branch was made again: %+v", again)
		}
	})
}

func TestUnmovedBranchCostsOneRequest(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	s := newSource(t, gitsource.Options{URL: repo.URL()})
	one := fetch(t, s)
	if got := server.Requests(); got != (testkit.GitRequests{Refs: 1, Packs: 1}) {
		t.Errorf("the first fetch made %+v", got)
	}
	repo.Commit(t, "other", "not ours", files("other"))
	for range 3 {
		if again := fetch(t, s); again != one {
			t.Errorf("commit = %+v, want the same as before", again)
		}
	}
	if got := server.Requests(); got != (testkit.GitRequests{Refs: 4, Packs: 1}) {
		t.Errorf("four fetches made %+v", got)
	}
}

func TestServerThatIsDown(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	s := newSource(t, gitsource.Options{URL: repo.URL()})
	one := fetch(t, s)
	server.Stop()
	if err := fetchError(t, s, "connection refused"); !strings.HasPrefix(err.Error(), repo.URL()+": ") {
		t.Errorf("err = %v, want the URL first", err)
	}
	if content(t, one, "dir/a.yaml") != "one" {
		t.Error("the last good commit is not readable")
	}
	repo.Commit(t, "main", "two", files("two"))
	server.Restart(t)
	if content(t, fetch(t, s), "dir/a.yaml") != "two" {
		t.Error("the server is back, its new commit is not")
	}
}

func TestRepositoriesThatHaveNothingForUs(t *testing.T) {
	eachRemote(t, func(t *testing.T, repo *testkit.GitRepo, url string, publish func()) {
		s := newSource(t, gitsource.Options{URL: url})
		fetchError(t, s, "the repository is empty: push to main")
		for i := range 12 {
			repo.Commit(t, fmt.Sprintf("topic-%02d", i), "topic", files("topic"))
		}
		publish()
		fetchError(t, s, "no branch or tag main: there is topic-00, topic-01,")
		fetchError(t, s, "topic-09, 2 more")
		repo.Commit(t, "main", "one", files("one"))
		publish()
		s = newSource(t, gitsource.Options{URL: url, Ref: "prod"})
		fetchError(t, s, "no branch or tag prod: there is main (the default), topic-00")
		fetchError(t, newSource(t, gitsource.Options{URL: strings.Replace(url, ".git", "-missing.git", 1)}), "there is no")
	})
}

// A server that answers nonsense, echoes credentials, or nothing at all.
func TestServersThatMisbehave(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"garbage":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\nwelcome\n") }, "a web page"},
		"noise":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0, 1, 2, 3, 0}) }, "not git's protocol"},
		"nothing":    {func(http.ResponseWriter, *http.Request) {}, "answers with nothing"},
		"error page": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "long\nstory", http.StatusBadGateway) }, "502"},
		"echo": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "who is "+r.Header.Get("Authorization")+" sesame", http.StatusUnauthorized)
		}, "refuses the credentials"},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "does not allow"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			auth := secret(t, map[string]string{"bearerToken": "sesame"})
			err := fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Auth: auth}), tt.want)
			if strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "welcome\n") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// The references are fine, the pack is cut short or is no pack.
func TestPackThatIsBroken(t *testing.T) {
	real := testkit.StartGit(t, testkit.GitOptions{})
	repo := real.Repo(t, "fleet")
	repo.Commit(t, "main", "one", files(strings.Repeat("one", 1000)))
	for name, breakPack := range map[string]func([]byte) []byte{
		"short": func(b []byte) []byte { return b[:len(b)-100] },
		"noise": func(b []byte) []byte { return append(b[:60:60], strings.Repeat("noise", 100)...) },
		"empty": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := httptest.NewRecorder()
				real.ServeHTTP(answer, r)
				body := answer.Body.Bytes()
				if r.Method == http.MethodPost {
					body = breakPack(body)
				}
				_, _ = w.Write(body)
			}))
			defer server.Close()
			fetchError(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git"}), "fetch ")
		})
	}
}

func TestFetchIsBounded(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	s := newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Timeout: 50 * time.Millisecond})
	if err := fetchError(t, s, "no answer in 50ms"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestWorkingTreeIsARepositoryToo(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	hash := repo.Commit(t, "main", "one", files("one"))
	dir := filepath.Join(t.TempDir(), "clone")
	git(t, "clone", "--quiet", repo.URL(), dir)
	for _, url := range []string{dir, "file://" + dir} {
		if c := fetch(t, newSource(t, gitsource.Options{URL: url})); c.Hash != hash || content(t, c, "dir/a.yaml") != "one" {
			t.Errorf("%s: commit = %+v", url, c)
		}
	}
}

func TestTreesAreReadWhileFetching(t *testing.T) {
	server := testkit.StartGit(t, testkit.GitOptions{})
	repo := server.Repo(t, "fleet")
	repo.Commit(t, "main", "0", files("0"))
	s := newSource(t, gitsource.Options{URL: repo.URL()})
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 5 {
		c := fetch(t, s)
		for range 3 {
			wg.Go(func() {
				for range 50 {
					if data, err := fs.ReadFile(c.Tree, "dir/a.yaml"); err != nil || string(data) != fmt.Sprint(i) {
						t.Errorf("content = %q, %v; want %d", data, err, i)
					}
				}
			})
		}
		repo.Commit(t, "main", fmt.Sprint(i+1), files(fmt.Sprint(i+1)))
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		options gitsource.Options
		want    string
	}{
		"no URL":            {gitsource.Options{}, "is empty"},
		"inline password":   {gitsource.Options{URL: "https://agent:hunter2@git.example/fleet.git"}, "https://git.example/fleet.git: the URL holds credentials"},
		"inline token":      {gitsource.Options{URL: "https://hunter2@git.example/fleet.git"}, "the URL holds credentials"},
		"ssh password":      {gitsource.Options{URL: "ssh://git:hunter2@git.example/fleet.git"}, "ssh://git.example/fleet.git: the URL holds credentials"},
		"token in query":    {gitsource.Options{URL: "https://git.example/fleet.git?token=hunter2"}, "the URL has a query"},
		"unreadable URL":    {gitsource.Options{URL: "https://agent:hunter2@[::1"}, "cannot be read"},
		"ssh without a key": {gitsource.Options{URL: "ssh://git@git.example/fleet.git"}, "ssh needs a folder with the files identity and known_hosts"},
		"ssh, short":        {gitsource.Options{URL: "git@git.example:fleet.git"}, "ssh://git@git.example/fleet.git: ssh needs"},
		"ssh option":        {gitsource.Options{URL: "git@git.example:--upload-pack=x"}, "starts with a dash"},
		"git protocol":      {gitsource.Options{URL: "git://git.example/fleet.git"}, "use https or ssh"},
		"no host":           {gitsource.Options{URL: "https:///fleet.git"}, "no host"},
		"no path":           {gitsource.Options{URL: "https://git.example/"}, "no path"},
		"other scheme":      {gitsource.Options{URL: "ftp://git.example/fleet.git"}, "neither"},
		"branch":            {gitsource.Options{URL: "/srv/fleet.git", Ref: "a..b"}, `"a..b" is no name of a branch or tag`},
		"head":              {gitsource.Options{URL: "/srv/fleet.git", Ref: "HEAD"}, "is no name of a branch or tag"},
		"full reference":    {gitsource.Options{URL: "/srv/fleet.git", Ref: "refs/heads/a..b"}, "is no name of a reference"},
		"range":             {gitsource.Options{URL: "/srv/fleet.git", Ref: "semver:newest"}, "write it like semver:>=1.2 <2"},
		"timeout":           {gitsource.Options{URL: "/srv/fleet.git", Timeout: -1}, "negative"},
		"local credentials": {gitsource.Options{URL: "/srv/fleet.git", Auth: "."}, "takes no credentials"},
		"missing folder":    {gitsource.Options{URL: "https://git.example/f", Auth: "nowhere"}, "nowhere: there is no such folder"},
		"file as folder":    {gitsource.Options{URL: "https://git.example/f", Auth: "fetch_test.go"}, "is a file"},
		"proxy password":    {gitsource.Options{URL: "https://git.example/f", Proxy: "http://a:hunter2@proxy:3128"}, "http://proxy:3128: the URL of the proxy holds credentials"},
		"small pack":        {gitsource.Options{URL: "/srv/fleet.git", Limits: gitsource.Limits{Pack: 1}}, "--git-max-pack 1: is not between 1 MiB and 65536 MiB"},
		"negative pack":     {gitsource.Options{URL: "/srv/fleet.git", Limits: gitsource.Limits{Pack: -1}}, "--git-max-pack -1"},
		"endless pack":      {gitsource.Options{URL: "/srv/fleet.git", Limits: gitsource.Limits{Pack: 1 << 62}}, "--git-max-pack"},
		"proxy scheme":      {gitsource.Options{URL: "https://git.example/f", Proxy: "ftp://proxy"}, "is no http, https or socks5 URL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := gitsource.New(tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}
