// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// address is where a repository is.
type address struct {
	scheme string // https, http, ssh or file
	user   string // of ssh
	host   string // host, or host:port
	path   string // as the scheme has it: escaped in http, a file's path in file
}

// shortSSH is git's short form of an ssh URL: [user@]host:path.
var shortSSH = regexp.MustCompile(`^(?:([A-Za-z0-9._-]+)@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(.*)$`)

// parseURL reads a URL, git's short form host:path, or the path of a
// repository on this machine. Its errors hold no credentials.
func parseURL(raw string) (address, error) {
	switch path, isFile := strings.CutPrefix(raw, "file://"); {
	case raw == "":
		return address{}, errors.New("the URL of the repository is empty")
	case strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return address{}, errors.New("the URL of the repository cannot be read")
	case isFile && !strings.HasPrefix(path, "/"):
		return address{}, fmt.Errorf("%s: the path is not absolute: write it like file:///srv/fleet.git", raw)
	case isFile:
		return address{scheme: "file", path: path}, nil
	case strings.Contains(raw, "://"):
		return parseFullURL(raw)
	}
	before, _, isRemote := strings.Cut(raw, ":")
	if !isRemote || strings.Contains(before, "/") {
		return address{scheme: "file", path: raw}, nil
	}
	parts := shortSSH.FindStringSubmatch(raw)
	if parts == nil || parts[3] == "" {
		return address{}, errors.New("the URL of the repository cannot be read")
	}
	if strings.ContainsRune(parts[3], '@') && strings.ContainsRune(parts[3], ':') {
		return address{}, errors.New("the URL of the repository holds credentials: put them into files and name their folder with --git-auth")
	}
	return sshAddress(parts[1], parts[2], parts[3])
}

func parseFullURL(raw string) (address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return address{}, errors.New("the URL of the repository cannot be read") // quoting it would show a password
	}
	_, hasPassword := u.User.Password()
	switch {
	case u.User != nil && (u.Scheme != "ssh" || hasPassword):
		return address{}, fmt.Errorf("%s: the URL holds credentials: put them into files and name their folder with --git-auth", bare(u))
	case u.RawQuery != "" || u.Fragment != "":
		return address{}, fmt.Errorf("%s: the URL has a query: pass the branch and credentials apart", bare(u))
	case u.Scheme == "git":
		return address{}, fmt.Errorf("%s: anybody between here and there can change what git:// carries: use https or ssh", bare(u))
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh":
		return address{}, fmt.Errorf("%s: is neither an https, http, ssh or file URL nor a path", bare(u))
	case u.Hostname() == "":
		return address{}, fmt.Errorf("%s: the URL has no host", bare(u))
	case strings.Trim(u.Path, "/") == "":
		return address{}, fmt.Errorf("%s: the URL has no path", bare(u))
	case u.Scheme == "ssh":
		path := u.Path
		if strings.HasPrefix(path, "/~") {
			path = path[1:] // as git has it: relative to somebody's home
		}
		return sshAddress(u.User.Username(), u.Host, path)
	default:
		return address{scheme: u.Scheme, host: u.Host, path: "/" + strings.Trim(u.EscapedPath(), "/")}, nil
	}
}

func sshAddress(user, host, path string) (address, error) {
	if strings.HasPrefix(path, "-") {
		return address{}, errors.New("the path of the repository starts with a dash")
	}
	if user == "" {
		user = "git"
	}
	return address{scheme: "ssh", user: user, host: host, path: path}, nil
}

// bare is a URL without what may be secret: an @ in a path was meant to be
// before it.
func bare(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if strings.ContainsRune(u.Path, '@') {
		shown.Path = "/..."
	}
	return shown.String()
}

// isName says whether this is a path that does not look like one: most of those
// are a URL that lost its beginning.
func (a address) isName() bool {
	return a.scheme == "file" && a.path != "" && !strings.ContainsAny(a.path[:1], "./")
}

// dial is the host with its port, for ssh.
func (a address) dial() string {
	if _, _, err := net.SplitHostPort(a.host); err == nil {
		return a.host
	}
	return net.JoinHostPort(strings.Trim(a.host, "[]"), "22")
}

func (a address) String() string {
	switch a.scheme {
	case "file":
		return a.path
	case "ssh":
		return "ssh://" + a.user + "@" + a.host + "/" + strings.TrimPrefix(a.path, "/")
	default:
		return a.scheme + "://" + a.host + a.path
	}
}
