// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// signed is an object taken apart: the signature and what it signs, byte for
// byte as Git does it.
type signed struct {
	payload   []byte
	signature []byte // empty if there is none
	by        person
	tag       Tag // of a tag
}

// person is who made the object, and when, as the object claims.
type person struct {
	email string
	when  time.Time
}

// A commit carries its signature in a header, whose continuation lines begin
// with a space. The payload is the commit without that header, and without the
// one for the other hash, which a repository that changes its hash has.
const (
	signatureHeader = "gpgsig"
	otherHashHeader = "gpgsig-sha256"
)

// splitCommit refuses a commit that two readers could understand differently.
func splitCommit(object []byte) (signed, error) {
	var s signed
	headers, body, err := splitHeaders(object)
	if err != nil {
		return signed{}, err
	}
	seen := map[string]bool{}
	for _, h := range headers {
		if seen[h.name] && h.name != "parent" && h.name != "mergetag" {
			return signed{}, fmt.Errorf("has the header %q twice", h.name)
		}
		seen[h.name] = true
		switch h.name {
		case signatureHeader:
			s.signature = h.value()
		case otherHashHeader:
		default:
			s.payload = append(s.payload, h.raw...)
		}
		if h.name == "committer" {
			if s.by, err = parsePerson(string(h.value())); err != nil {
				return signed{}, err
			}
		}
	}
	if !seen["tree"] || !seen["committer"] {
		return signed{}, errors.New("is no commit")
	}
	s.payload = append(s.payload, body...)
	return s, nil
}

// splitTag takes the signature from the end of the message. It begins at the
// last line that can begin one.
func splitTag(object []byte) (signed, error) {
	headers, _, err := splitHeaders(object)
	if err != nil {
		return signed{}, err
	}
	var s signed
	values := map[string]string{}
	for _, h := range headers {
		if _, twice := values[h.name]; twice || strings.HasPrefix(h.name, signatureHeader) {
			return signed{}, fmt.Errorf("has the header %q, which no tag has, or has it twice", h.name)
		}
		values[h.name] = string(h.value())
	}
	if values["type"] != "commit\n" {
		return signed{}, errors.New("is no tag of a commit")
	}
	if s.by, err = parsePerson(values["tagger"]); err != nil {
		return signed{}, err
	}
	s.tag = Tag{Name: strings.TrimSuffix(values["tag"], "\n"), Commit: strings.TrimSuffix(values["object"], "\n")}
	at := lastSignature(object)
	s.payload, s.signature = object[:at], object[at:]
	return s, nil
}

// lastSignature is where the signature of a tag begins: its length without one.
func lastSignature(object []byte) int {
	found := len(object)
	for at := 0; at < len(object); {
		rest := object[at:]
		for _, begin := range [][]byte{beginOpenPGP, beginSSH, beginX509} {
			if bytes.HasPrefix(rest, begin) {
				found = at
			}
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	return found
}

// header is one header of an object, with its continuation lines.
type header struct {
	name string
	raw  []byte
}

// value is what follows the name, lines joined as they were before they were
// made a header.
func (h header) value() []byte {
	value := h.raw[len(h.name)+1:]
	return bytes.ReplaceAll(value, []byte("\n "), []byte("\n"))
}

// splitHeaders answers the headers, and the rest with the empty line that
// begins it.
func splitHeaders(object []byte) (headers []header, body []byte, err error) {
	for rest := object; len(rest) > 0; {
		if rest[0] == '\n' {
			return headers, rest, nil
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		line := rest[:end+1]
		rest = rest[end+1:]
		if line[0] == ' ' {
			if len(headers) == 0 {
				break
			}
			last := &headers[len(headers)-1]
			last.raw = append(last.raw[:len(last.raw):len(last.raw)], line...)
			continue
		}
		name, _, ok := bytes.Cut(line[:end], []byte(" "))
		if !ok {
			break
		}
		headers = append(headers, header{name: string(name), raw: line})
	}
	return nil, nil, errors.New("has no readable headers")
}

// parsePerson reads "Name <email> 1767225600 +0100".
func parsePerson(line string) (person, error) {
	rest := strings.TrimSuffix(line, "\n")
	from, to := strings.LastIndexByte(rest, '<'), strings.LastIndexByte(rest, '>')
	if from < 0 || to < from {
		return person{}, errors.New("does not say who made it")
	}
	fields := strings.Fields(rest[to+1:])
	if len(fields) == 0 {
		return person{}, errors.New("does not say when it was made")
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return person{}, errors.New("does not say when it was made")
	}
	return person{email: rest[from+1 : to], when: time.Unix(seconds, 0).UTC()}, nil
}
