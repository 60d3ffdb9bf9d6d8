// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// firstCommit is when history begins in every repository. Later commits come a
// minute apart, so that the same changes give the same hashes in every run.
var firstCommit = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// GitRepo is a bare repository of a GitServer. Its methods write to it
// directly, whether the server runs or not, and return the branch's new hash.
type GitRepo struct {
	server *GitServer
	name   string
	dir    string

	mu      sync.Mutex
	commits int
}

// Repo makes an empty repository whose default branch is main.
func (s *GitServer) Repo(t testing.TB, name string) *GitRepo {
	t.Helper()
	r := &GitRepo{server: s, name: name, dir: filepath.Join(s.dir, name+".git")}
	r.git(t, "", "init", "--quiet", "--bare", "--initial-branch=main", r.dir)
	// As the large hosts do: a client may ask for any commit, and for part of one.
	r.git(t, "", "config", "uploadpack.allowAnySHA1InWant", "true")
	r.git(t, "", "config", "uploadpack.allowFilter", "true")
	return r
}

// URL is where clients find the repository.
func (r *GitRepo) URL() string { return r.server.URL() + "/" + r.name + ".git" }

// Commit writes files, by path, on top of a branch, which it makes if it has to.
func (r *GitRepo) Commit(t testing.TB, branch, message string, files map[string]string) string {
	t.Helper()
	var changes bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(files)) {
		writeFile(&changes, path, []byte(files[path]))
	}
	return r.commit(t, branch, message, changes.Bytes())
}

// CommitFS makes the branch's tree exactly what is in fsys.
func (r *GitRepo) CommitFS(t testing.TB, branch, message string, fsys fs.FS) string {
	t.Helper()
	changes := bytes.NewBufferString("deleteall\n")
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		writeFile(changes, path, content)
		return nil
	})
	if err != nil {
		t.Fatalf("commit to %s: %v", r.name, err)
	}
	return r.commit(t, branch, message, changes.Bytes())
}

// Delete removes files or folders from a branch.
func (r *GitRepo) Delete(t testing.TB, branch, message string, paths ...string) string {
	t.Helper()
	var changes bytes.Buffer
	for _, path := range paths {
		fmt.Fprintf(&changes, "D %q\n", path)
	}
	return r.commit(t, branch, message, changes.Bytes())
}

// Revert undoes the branch's last commit with a new one.
func (r *GitRepo) Revert(t testing.TB, branch string) string {
	t.Helper()
	tree := r.git(t, "", "rev-parse", "--verify", "refs/heads/"+branch+"~1^{tree}")
	return r.commit(t, branch, "Revert the last commit", fmt.Appendf(nil, "M 040000 %s \n", tree))
}

// ForcePush moves a branch to any commit, as git push --force does.
func (r *GitRepo) ForcePush(t testing.TB, branch, hash string) string {
	t.Helper()
	r.git(t, "", "update-ref", "refs/heads/"+branch, hash)
	return hash
}

// Head is the branch's hash.
func (r *GitRepo) Head(t testing.TB, branch string) string {
	t.Helper()
	return r.git(t, "", "rev-parse", "--verify", "refs/heads/"+branch)
}

// commit feeds one commit to git fast-import, which takes any number of files
// in one process.
func (r *GitRepo) commit(t testing.TB, branch, message string, changes []byte) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := "refs/heads/" + branch
	when := firstCommit.Add(time.Duration(r.commits) * time.Minute).Unix()
	r.commits++

	var in bytes.Buffer
	fmt.Fprintf(&in, "commit %s\ncommitter Lamp Lighter <lamp@example.com> %d +0000\n", ref, when)
	fmt.Fprintf(&in, "data %d\n%s\n", len(message), message)
	if r.git(t, "", "for-each-ref", ref) != "" {
		fmt.Fprintf(&in, "from %s^0\n", ref)
	}
	in.Write(changes)
	r.git(t, in.String(), "fast-import", "--quiet", "--date-format=raw")
	return r.Head(t, branch)
}

func writeFile(b *bytes.Buffer, path string, content []byte) {
	fmt.Fprintf(b, "M 100644 inline %q\ndata %d\n%s\n", path, len(content), content)
}

// git runs git on the repository and returns its trimmed output.
func (r *GitRepo) git(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(gitEnv(r.server.dir), "GIT_DIR="+r.dir)
	cmd.Stdin = strings.NewReader(stdin)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s in %s: %v\n%s", args[0], r.name, err, &complaints)
	}
	return strings.TrimSpace(string(out))
}

// gitEnv shuts out the configuration of the user and the machine.
func gitEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	}
}

// Submodule puts a commit of another repository into a branch's tree.
func (r *GitRepo) Submodule(t testing.TB, branch, path, hash string) string {
	t.Helper()
	return r.commit(t, branch, "Add submodule "+path, fmt.Appendf(nil, "M 160000 %s %q\n", hash, path))
}

// Tag makes an annotated tag, or moves it there.
func (r *GitRepo) Tag(t testing.TB, name, hash string) {
	t.Helper()
	in := fmt.Sprintf("tag %s\nfrom %s\ntagger Lamp Lighter <lamp@example.com> %d +0000\ndata %d\n%s\n",
		name, hash, firstCommit.Unix(), len(name), name)
	r.git(t, in, "fast-import", "--quiet", "--force", "--date-format=raw")
}

// SetRef points any reference, by its full name, at a hash.
func (r *GitRepo) SetRef(t testing.TB, ref, hash string) {
	t.Helper()
	r.git(t, "", "update-ref", ref, hash)
}

// Config sets an option of the repository.
func (r *GitRepo) Config(t testing.TB, name, value string) {
	t.Helper()
	r.git(t, "", "config", name, value)
}

// Object stores an object as it stands, whatever Git thinks of it.
func (r *GitRepo) Object(t testing.TB, kind, content string) string {
	t.Helper()
	return r.git(t, content, "hash-object", "-w", "--literally", "-t", kind, "--stdin")
}

// Git runs git on the repository, as who keeps the server may, and returns its
// output.
func (r *GitRepo) Git(t testing.TB, args ...string) string {
	t.Helper()
	return r.git(t, "", args...)
}

// Dir is the bare repository's folder.
func (r *GitRepo) Dir() string { return r.dir }

// Link puts a symbolic link into a branch's tree.
func (r *GitRepo) Link(t testing.TB, branch, path, target string) string {
	t.Helper()
	return r.commit(t, branch, "Add link "+path, fmt.Appendf(nil, "M 120000 inline %q\ndata %d\n%s\n", path, len(target), target))
}
