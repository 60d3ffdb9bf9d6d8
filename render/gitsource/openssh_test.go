// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// keygen makes a pair of keys with ssh-keygen and answers the private one.
func keygen(t *testing.T, file string, args ...string) string {
	t.Helper()
	out, err := exec.Command("ssh-keygen", append([]string{"-q", "-f", file, "-C", "test"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	return readFile(t, file)
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// startSSHD answers each connection with an sshd of its own and returns the
// address. The folder holds the host keys and authorized_keys.
func startSSHD(t *testing.T, dir string) string {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		if sshd, err = exec.LookPath("/usr/sbin/sshd"); err != nil {
			t.Fatalf("find sshd: %v (make tools installs it)", err)
		}
	}
	if os.Getuid() == 0 { // where an sshd of root drops its rights
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "sshd_config")
	lines := "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n" +
		"AuthorizedKeysFile " + filepath.Join(dir, "authorized_keys") + "\n"
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		lines += "HostKey " + filepath.Join(dir, "host_"+kind) + "\n"
	}
	writeSecret(t, dir, map[string]string{"sshd_config": lines})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			socket, err := conn.(*net.TCPConn).File()
			_ = conn.Close()
			if err != nil {
				t.Error(err)
				return
			}
			cmd := exec.Command(sshd, "-i", "-f", config, "-E", filepath.Join(dir, "log"))
			cmd.Stdin, cmd.Stdout = socket, socket
			done.Go(func() { _ = cmd.Run(); _ = socket.Close() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		done.Wait()
		if t.Failed() {
			t.Log(readFile(t, filepath.Join(dir, "log")))
		}
	})
	return listener.Addr().String()
}

// The keys are ssh-keygen's and the server is sshd, as wherever a repository
// is a folder on somebody's machine.
func TestOpenSSH(t *testing.T) {
	repo := testkit.StartGit(t, testkit.GitOptions{}).Repo(t, "fleet")
	repo.Commit(t, "main", "one", files("one"))
	dir := t.TempDir()
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		bits := map[string]string{"rsa": "2048", "ecdsa": "256", "ed25519": "256"}
		keygen(t, filepath.Join(dir, "host_"+kind), "-t", kind, "-b", bits[kind], "-N", "")
	}
	users := map[string]map[string]string{}
	var authorized strings.Builder
	for name, args := range map[string][]string{
		"ed25519": {"-t", "ed25519", "-N", ""}, "ecdsa": {"-t", "ecdsa", "-b", "521", "-N", ""}, "rsa": {"-t", "rsa", "-b", "2048", "-N", ""},
		"old format": {"-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""}, "passphrase": {"-t", "ed25519", "-a", "2", "-N", "swordfish"},
		"old format, passphrase": {"-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "swordfish"},
	} {
		file := filepath.Join(dir, strings.NewReplacer(" ", "_", ",", "").Replace(name))
		users[name] = map[string]string{"identity": keygen(t, file, args...), "identity.pub": readFile(t, file+".pub")}
		if strings.Contains(name, "passphrase") {
			users[name]["password"] = "swordfish"
		}
		authorized.WriteString(readFile(t, file+".pub"))
	}
	writeSecret(t, dir, map[string]string{"authorized_keys": authorized.String()})
	addr := startSSHD(t, dir)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	url := fmt.Sprintf("ssh://%s@%s%s", me.Username, addr, repo.Dir())
	hosts := map[string]string{}
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		hosts[kind] = "[127.0.0.1]:" + port + " " + readFile(t, filepath.Join(dir, "host_"+kind+".pub"))
	}
	source := func(files map[string]string, hosts string) *gitsource.Source {
		auth := secret(t, files)
		writeSecret(t, auth, map[string]string{"known_hosts": hosts})
		return newSource(t, gitsource.Options{URL: url, Auth: auth})
	}
	for name, files := range users {
		t.Run("user's key "+name, func(t *testing.T) { wantContent(t, source(files, hosts["ed25519"]), "one") })
	}
	for kind := range hosts {
		t.Run("host key "+kind, func(t *testing.T) { wantContent(t, source(users["ed25519"], hosts[kind]), "one") })
	}
	t.Run("hashed by ssh-keygen", func(t *testing.T) {
		file := filepath.Join(dir, "hashed")
		writeSecret(t, dir, map[string]string{"hashed": hosts["ecdsa"] + hosts["rsa"]})
		if out, err := exec.Command("ssh-keygen", "-q", "-H", "-f", file).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
		hashed := readFile(t, file)
		if !strings.Contains(hashed, "|1|") {
			t.Fatalf("not hashed: %s", hashed)
		}
		wantContent(t, source(users["rsa"], hashed), "one")
	})
	t.Run("certified by ssh-keygen", func(t *testing.T) {
		authority := filepath.Join(dir, "authority")
		keygen(t, authority, "-t", "ed25519", "-N", "")
		out, err := exec.Command("ssh-keygen", "-q", "-s", authority, "-I", "host", "-h", "-n", "127.0.0.1", filepath.Join(dir, "host_ed25519.pub")).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
		config := filepath.Join(dir, "sshd_config")
		writeSecret(t, dir, map[string]string{"sshd_config": readFile(t, config) + "HostCertificate " + filepath.Join(dir, "host_ed25519-cert.pub") + "\n"})
		wantContent(t, source(users["ed25519"], "@cert-authority *.0.0.1 "+readFile(t, authority+".pub")), "one")
	})
	t.Run("unknown key", func(t *testing.T) {
		stranger := keygen(t, filepath.Join(dir, "stranger"), "-t", "ed25519", "-N", "")
		fetchError(t, source(map[string]string{"identity": stranger}, hosts["rsa"]), "the server refuses the key")
	})
	t.Run("wrong host key", func(t *testing.T) {
		keygen(t, filepath.Join(dir, "wrong"), "-t", "rsa", "-b", "2048", "-N", "")
		wrong := "[127.0.0.1]:" + port + " " + readFile(t, filepath.Join(dir, "wrong.pub"))
		fetchError(t, source(users["ed25519"], wrong), "is not the one in known_hosts (ssh-rsa)")
	})
}
