// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/ini.v1"
)

// flatPrefix begins the keys of a dotenv file's metadata.
const flatPrefix = metadataKey + "_"

// line is one line of a dotenv file.
type line struct{ key, value, comment string }

func readDotenv(data []byte) (*file, error) {
	var lines []*line
	meta := map[string]string{}
	var b branch
	number := 0
	for text := range strings.Lines(string(data)) {
		number++
		text = strings.TrimSuffix(text, "\n")
		key, value, pair := strings.Cut(text, "=")
		switch {
		case text == "":
		case text[0] == '#':
			l := &line{comment: text[1:]}
			lines = append(lines, l)
			b = append(b, item{comment: &comment{text: l.comment, set: func(s string) { l.comment = s }}})
		case !pair:
			return nil, fmt.Errorf("line %d is no KEY=VALUE", number)
		case strings.HasPrefix(key, flatPrefix):
			meta[key[len(flatPrefix):]] = unescape(value)
		default:
			l := &line{key: key, value: unescape(value)}
			lines = append(lines, l)
			b = append(b, item{key: key, value: &leaf{value: l.value, set: func(v any) error { l.value = fmt.Sprint(v); return nil }}})
		}
	}
	return flatFile(meta, b, func() ([]byte, error) {
		var out bytes.Buffer
		for _, l := range lines {
			if l.key == "" && l.comment != "" {
				fmt.Fprintf(&out, "#%s\n", l.comment)
				continue
			}
			fmt.Fprintf(&out, "%s=%s\n", l.key, escape(l.value))
		}
		return out.Bytes(), nil
	})
}

func unescape(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }
func escape(s string) string   { return strings.ReplaceAll(s, "\n", `\n`) }

// flatFile is a file with flat metadata; nil if there is none.
func flatFile(meta map[string]string, b branch, write func() ([]byte, error)) (*file, error) {
	if _, ok := meta["mac"]; !ok {
		return nil, nil
	}
	fields, err := unflatten(meta)
	if err != nil {
		return nil, err
	}
	m, err := readMetadata(fields)
	if err != nil {
		return nil, err
	}
	return &file{parts: []part{{metadata: m, branches: []branch{b}}}, write: write}, nil
}

func readINI(data []byte) (*file, error) {
	table, err := ini.LoadSources(ini.LoadOptions{AllowNonUniqueSections: true}, data)
	if err != nil {
		return nil, nil //nolint:nilerr // no INI: whoever reads the file says what is wrong with it
	}
	meta := map[string]string{}
	var b branch
	for _, section := range table.Sections() {
		if section.Name() == metadataKey {
			for _, key := range section.Keys() {
				meta[key.Name()] = unescape(key.Value())
			}
			continue
		}
		b = append(b, item{key: section.Name(), value: sectionBranch(section)})
	}
	return flatFile(meta, b, func() ([]byte, error) {
		table.DeleteSection(metadataKey)
		var out bytes.Buffer
		_, err := table.WriteTo(&out)
		return out.Bytes(), err
	})
}

func sectionBranch(section *ini.Section) branch {
	var b branch
	tell := func(field *string) {
		if *field == "" {
			return
		}
		text := strings.TrimLeft(*field, ";# ")
		b = append(b, item{comment: &comment{text: text, set: func(s string) { *field = "; " + s }}})
	}
	tell(&section.Comment)
	for _, key := range section.Keys() {
		b = append(b, item{key: key.Name(), value: &leaf{
			value: key.Value(),
			set:   func(v any) error { key.SetValue(fmt.Sprint(v)); return nil },
		}})
		tell(&key.Comment)
	}
	return b
}
