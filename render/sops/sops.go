// SPDX-License-Identifier: Apache-2.0

// Package sops answers what a file says that SOPS has encrypted, given age or
// OpenPGP keys: YAML, JSON, dotenv and INI files, and any other file in the
// JSON that SOPS wraps around it. It reads the files that SOPS 3 writes, and
// checks their MAC, so that a file is read whole and as it was encrypted or not
// at all.
//
// It asks no key service, no gpg-agent and no other process, and neither its
// errors nor anything else it says holds a key or a value.
//
//	keys, err := sops.ReadKeys(os.DirFS("/var/run/decryption"), ".")
//	plain, values, err := keys.Decrypt("agents/cni/secret.yaml", data)
package sops

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// format is how SOPS writes a file.
type format string

const (
	formatYAML   format = "yaml"
	formatJSON   format = "json"
	formatDotenv format = "dotenv"
	formatINI    format = "ini"
	formatBinary format = "binary"
)

// file is an encrypted file that has been read: what SOPS encrypted as one, and
// how to write it again.
type file struct {
	parts []part
	write func() ([]byte, error)
}

// Bounds of what one file may cost. To try a key takes up to some milliseconds.
const (
	maxEncrypted = 2 << 20 // bytes
	maxKeysTried = 1024
)

// keys is how many keys may have to be tried.
func (f *file) keys() (n int) {
	for _, p := range f.parts {
		for _, g := range p.metadata.groups {
			n += len(g)
		}
	}
	return n
}

// part is what one MAC covers.
type part struct {
	metadata metadata
	branches []branch
}

var readers = map[format]func([]byte) (*file, error){
	formatYAML:   readYAML,
	formatJSON:   readJSON,
	formatDotenv: readDotenv,
	formatINI:    readINI,
	formatBinary: readBinary,
}

// Decrypt answers a file in plain text, and the values in it that were
// encrypted. A file that SOPS has not encrypted is answered as it is. The error
// does not name the file.
func (k Keys) Decrypt(name string, data []byte) (plain []byte, values []string, err error) {
	f, ok := formatOf(name, data)
	if !ok {
		return data, nil, nil
	}
	read, err := readers[f](data)
	switch {
	case err != nil:
		return nil, nil, err
	case read == nil:
		return data, nil, nil
	case len(data) > maxEncrypted:
		return nil, nil, fmt.Errorf("is larger than %d MiB, and that is the most that is decrypted: split it", maxEncrypted>>20)
	}
	if n := read.keys(); n > maxKeysTried {
		return nil, nil, fmt.Errorf("names %d keys in all its documents, and %d are the most that are tried: split it", n, maxKeysTried)
	}
	for _, p := range read.parts {
		opened, err := k.open(p)
		if err != nil {
			return nil, nil, err
		}
		values = append(values, opened...)
	}
	if plain, err = read.write(); err != nil {
		return nil, nil, errors.New("cannot be written in plain text")
	}
	return plain, values, nil
}

// mark is in every file that SOPS has encrypted: its MAC is encrypted too.
var mark = []byte("ENC[AES256_GCM,data:")

// flatMark is the MAC of a dotenv file, tableMark the section of an INI file
// that holds it.
var (
	flatMark  = regexp.MustCompile(`(?m)^sops_mac=ENC\[`)
	tableMark = regexp.MustCompile(`(?m)^\[sops\]\s*$`)
)

// formatOf tells the format as SOPS does, by the file's extension; what has
// another, or is wrapped in JSON all the same, is told by its content.
func formatOf(name string, data []byte) (format, bool) {
	if !bytes.Contains(data, mark) || !bytes.Contains(data, []byte("sops")) {
		return "", false
	}
	object := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	switch ext := strings.ToLower(path.Ext(name)); {
	case ext == ".json":
		return formatJSON, true
	case ext == ".yaml" || ext == ".yml":
		return formatYAML, true
	case object:
		return formatBinary, true
	case ext == ".env" || flatMark.Match(data):
		return formatDotenv, true
	case ext == ".ini" || tableMark.Match(data):
		return formatINI, true
	default:
		return formatYAML, true
	}
}

// open decrypts the values of a part in place and holds its MAC against them.
func (k Keys) open(p part) (values []string, err error) {
	key, err := k.dataKey(p.metadata.groups, p.metadata.threshold)
	if err != nil {
		return nil, err
	}
	c, err := newCipher(key)
	if err != nil {
		return nil, err
	}
	w := newWalk(p.metadata, c)
	for _, b := range p.branches {
		if err := w.branch(b, spot{}); err != nil {
			return nil, err
		}
	}
	want, err := c.open(p.metadata.mac, p.metadata.lastModified)
	if err != nil {
		return nil, fmt.Errorf("sops.mac: %w", err)
	}
	if want != w.mac() {
		return nil, errors.New("was changed after it was encrypted: its MAC does not match; edit it with sops")
	}
	return w.values, nil
}
