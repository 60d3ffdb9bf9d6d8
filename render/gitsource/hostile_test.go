// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/crypto/ssh"
)

// Whatever a tree holds, everything that can be listed can be opened or says
// why not, and nothing is outside.
func FuzzTree(f *testing.F) {
	hash := strings.Repeat("h", 20)
	for _, name := range []string{"a", "..", ".", ".git", "a/b", "", "a\x01b", strings.Repeat("n", 4096), "..\\x", "\xff"} {
		f.Add([]byte("100644 "+name+"\x00"+hash), []byte("../../etc/passwd"))
		f.Add([]byte("120000 "+name+"\x00"+hash+"40000 sub\x00"+hash), []byte(name))
	}
	f.Fuzz(func(t *testing.T, data, blob []byte) {
		store := looseObjects{}
		b := put(t, store, plumbing.BlobObject, string(blob))
		// The hash that the seeds name is the blob's.
		data = bytes.ReplaceAll(data, []byte(hash), b[:])
		tr, err := readTree(t.Context(), store, put(t, store, plumbing.TreeObject, string(data)), inTest())
		if err != nil {
			return
		}
		err = fs.WalkDir(tr, ".", func(name string, d fs.DirEntry, err error) error {
			if !fs.ValidPath(name) {
				t.Errorf("path %q", name)
			}
			if d != nil && d.Type().IsRegular() {
				if data, err := fs.ReadFile(tr, name); err == nil && !bytes.Equal(data, blob) {
					t.Errorf("%q holds %q", name, data)
				}
			} else {
				_, _ = tr.Open(name) // may say no, and must say it
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Whatever a pack holds, it is read within its bounds.
func FuzzPack(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00\x02\x9d\x08\x82;\xd8\xa8\xea\xb5\x10\xadj\xc7\\\x82<\xfd>\xd3\x1e"))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x0fx\x9c"))
	limits := Limits{Pack: 1 << 16, Tree: 1 << 20, Object: 1 << 18, Files: 100}.withDefaults()
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := packs{}.add(t.Context(), plumbing.ZeroHash, newBounded(t.Context(), bytes.NewReader(data), limits.Pack, "it holds"), limits)
		if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("err = %q", err)
		}
	})
}

// Whatever the objects of a pack are that arrives whole, they are read or
// refused: packs made of nothing but noise hardly ever get so far.
func FuzzObjects(f *testing.F) {
	const base = "what others differ from, and then some more of it"
	length := string(uvarint(uint64(len(base))))
	f.Add(byte(plumbing.OFSDeltaObject), []byte(length+"\x05\x90\x05"), byte(0))
	f.Add(byte(plumbing.REFDeltaObject), []byte(length+"\x05\x05hello"), byte(1))
	f.Add(byte(plumbing.REFDeltaObject), []byte(length+"\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), byte(2))
	f.Add(byte(plumbing.OFSDeltaObject), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), byte(0))
	f.Add(byte(plumbing.OFSDeltaObject), []byte(length+"\x00\x00"), byte(0))
	f.Add(byte(plumbing.CommitObject), []byte("tree 1\nparent\nauthor <> 99999999999999999999 +9999\n\n"), byte(0))
	f.Add(byte(plumbing.TreeObject), []byte("100644 \x00short"), byte(0))
	f.Add(byte(plumbing.TagObject), []byte("object 1\ntype tag\ntag \n"), byte(0))
	f.Add(byte(5), []byte("no kind"), byte(0))
	limits := Limits{Pack: 1 << 16, Tree: 1 << 20, Object: 1 << 18, Files: 100}.withDefaults()
	f.Fuzz(func(t *testing.T, kind byte, data []byte, of byte) {
		bases := []plumbing.Hash{plumbing.ComputeHash(plumbing.BlobObject, []byte(base)), plumbing.ComputeHash(plumbing.ObjectType(kind), data), plumbing.ZeroHash}
		pack := packOf(t, []packed{
			{kind: plumbing.BlobObject, data: []byte(base)},
			{kind: plumbing.ObjectType(kind % 8), data: data, base: bases[int(of)%len(bases)]},
			{kind: plumbing.OFSDeltaObject, data: data},
		})
		p, err := packs{}.add(t.Context(), plumbing.ZeroHash, bytes.NewReader(pack), limits)
		if err != nil {
			return
		}
		entries, err := p.index.Entries()
		if err != nil {
			t.Fatal(err)
		}
		for e, err := entries.Next(); err == nil; e, err = entries.Next() {
			if _, err := p.object(e.Hash); err != nil {
				t.Errorf("a pack that was taken in does not give %s: %v", e.Hash, err)
			}
			_, _ = commitOf(p, e.Hash) // may say no
			_, _ = readTree(t.Context(), p, e.Hash, inTest())
		}
	})
}

// Whatever known_hosts holds, it trusts no key that is not in it.
func FuzzKnownHosts(f *testing.F) {
	for _, line := range []string{
		"github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
		"|1|aaaa|bbbb ssh-rsa AAAA", "@cert-authority *.example.com ssh-ed25519 AAAA", "@revoked * ssh-rsa AAAA",
		"[127.0.0.1]:22 ssh-rsa !!!", "# comment", "!github.com,* ecdsa-sha2-nistp256 AAAA", "* * *", strings.Repeat("x", 70_000),
	} {
		f.Add([]byte(line + "\n"))
	}
	stranger := sshKey(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, ssh.MarshalAuthorizedKey(stranger)) {
			return
		}
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := readKnownHosts(file)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "known_hosts") {
				t.Errorf("err = %v", err)
			}
			return
		}
		db.HostKeyAlgorithms("git.example.com:22")
		if db.HostKeyCallback()("git.example.com:22", anywhere{}, stranger) == nil {
			t.Errorf("a stranger is trusted by %q", data)
		}
	})
}

type anywhere struct{}

func (anywhere) Network() string { return "tcp" }
func (anywhere) String() string  { return "192.0.2.1:22" }

func sshKey(t testing.TB) ssh.PublicKey {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBDYaX6LOLHIOQ1bCdAnkmVVLMNIGFdNBc6GVYbMoyAg"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A difference of a few bytes may describe a file of any size.
func TestDifferencesThatSwellAreRefused(t *testing.T) {
	base := strings.Repeat("x", 1000)
	var delta bytes.Buffer
	delta.Write(uvarint(1000))
	delta.Write(uvarint(1_000_000))
	for range 1000 {
		delta.Write([]byte{0x80 | 0x10 | 0x20, 0xe8, 0x03}) // copy 1,000 bytes of the base
	}
	pack := packOf(t, []packed{{kind: plumbing.BlobObject, data: []byte(base)}, {kind: plumbing.OFSDeltaObject, data: delta.Bytes()}})
	add := func(l Limits) error {
		_, err := packs{}.add(t.Context(), plumbing.ZeroHash, bytes.NewReader(pack), l.withDefaults())
		return err
	}
	if err := add(Limits{}); err != nil {
		t.Errorf("within bounds: %v", err)
	}
	if err := add(Limits{Object: 999_999}); err == nil || err.Error() != "the commit has a file of more than 999999 bytes" {
		t.Errorf("err = %v", err)
	}
	if err := add(Limits{Tree: 1_000_999}); err == nil || err.Error() != "the commit holds more than 1000999 bytes" {
		t.Errorf("err = %v", err)
	}
}

func TestPacksThatAreTooLargeAreRefusedBeforeTheyAreRead(t *testing.T) {
	for name, tt := range map[string]struct {
		data   string
		limits Limits
		want   string
	}{
		"count": {"PACK\x00\x00\x00\x02\xff\xff\xff\xff", Limits{}, "the commit consists of more than 400000 objects"},
		"file":  {"PACK\x00\x00\x00\x02\x00\x00\x00\x01\xb0\xff\xff\xff\x7f", Limits{}, "the commit has a file of more than 64 MiB"},
		"sent":  {string(packOf(t, []packed{{kind: plumbing.BlobObject, data: []byte("more than is wanted")}})), Limits{Pack: 20, Tree: 1 << 20, Object: 1 << 20}, "it sends more than 20 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := tt.limits.withDefaults()
			r := newBounded(t.Context(), strings.NewReader(tt.data), limits.Pack, "it sends")
			if _, err := receive(t.Context(), r, io.Discard, limits); err == nil || err.Error() != tt.want {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFullCacheIsNotBlamedOnTheServer(t *testing.T) {
	pack := packOf(t, []packed{{kind: plumbing.BlobObject, data: []byte("content")}})
	full := cacheWriter{packs{"/cache"}, fullDisk{}}
	if _, err := receive(t.Context(), bytes.NewReader(pack), full, Limits{}.withDefaults()); err == nil || err.Error() != "cache /cache: no space left on device" {
		t.Errorf("err = %v", err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/cache/incoming-42.pack", Err: syscall.ENOSPC}
}

// A file that somebody puts in the place of another has another name.
func TestContentThatIsSwappedIsNotRead(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(content string) {
		t.Helper()
		if _, err := f.WriteAt(packOf(t, []packed{{kind: plumbing.BlobObject, data: []byte(content)}}), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("good")
	listed, err := receive(t.Context(), f, io.Discard, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPack(t.Context(), diskFile{f}, listed)
	if err != nil {
		t.Fatal(err)
	}
	write("evil")
	good := plumbing.ComputeHash(plumbing.BlobObject, []byte("good"))
	if o, err := p.object(good); !errors.Is(err, errChanged) {
		t.Errorf("got %v, %v", o, err)
	}
}
