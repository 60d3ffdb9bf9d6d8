// SPDX-License-Identifier: Apache-2.0

// Remake encrypts the cases of render/sops/testdata anew with the sops that is
// installed, and asks it what they decrypt to:
//
//	go run ./render/sops/testdata/remake
//
// A case begins with what .sops.yaml says of it, a creation rule. It needs gpg too.
// The case of a key service stays as it is, since nobody here has that key, and so
// do the random files, which were made once.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"
)

const folder = "render/sops/testdata"

func main() {
	if err := remakeAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func remakeAll() (err error) {
	cases, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(cases) == 0 {
		return fmt.Errorf("no cases in %s: run this in the root of the repository, %w", folder, err)
	}
	keys, err := newKeys()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keys.forget()) }()
	for _, name := range cases {
		if filepath.Base(name) == "kms.txtar" {
			continue
		}
		if err := keys.remake(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// keys are those of the tests, where sops and gpg look for them.
type keys struct{ home string }

func newKeys() (keys, error) {
	home, err := os.MkdirTemp("", "sops") // short: gpg listens on a socket in it
	if err != nil {
		return keys{}, err
	}
	k := keys{home}
	var identities []byte
	for _, pattern := range []string{"*.agekey", "*.asc"} {
		files, err := filepath.Glob(filepath.Join(folder, "keys", pattern))
		if err != nil {
			return k, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return k, err
			}
			if pattern == "*.agekey" {
				identities = append(append(identities, data...), '\n')
			} else if _, err := k.run(home, data, "gpg", "--batch", "--quiet", "--import"); err != nil {
				return k, err
			}
		}
	}
	return k, os.WriteFile(k.identities(), identities, 0o600)
}

func (k keys) identities() string { return filepath.Join(k.home, "keys.txt") }

func (k keys) forget() error {
	_, err := k.run(k.home, nil, "gpgconf", "--kill", "all")
	return errors.Join(err, os.RemoveAll(k.home))
}

// remake encrypts the plain text of a case again.
func (k keys) remake(name string) error {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		return err
	}
	if len(archive.Files) != 2 {
		return errors.New("want a file and what sops decrypt prints")
	}
	dir, err := os.MkdirTemp(k.home, "case")
	if err != nil {
		return err
	}
	file, plain := archive.Files[0].Name, archive.Files[1].Data
	rule := strings.ReplaceAll(strings.TrimSpace(string(archive.Comment)), "\n", "\n  ")
	for path, text := range map[string][]byte{file: plain, ".sops.yaml": []byte("creation_rules:\n-\n  " + rule + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
			return err
		}
	}
	if archive.Files[0].Data, err = k.run(dir, nil, "sops", "encrypt", file); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, file), archive.Files[0].Data, 0o600); err != nil {
		return err
	}
	if archive.Files[1].Data, err = k.run(dir, nil, "sops", "decrypt", file); err != nil {
		return err
	}
	return os.WriteFile(name, txtar.Format(archive), 0o644)
}

func (k keys) run(dir string, stdin []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "GNUPGHOME=" + k.home, "SOPS_AGE_KEY_FILE=" + k.identities()}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &complaints)
	}
	return out, nil
}
