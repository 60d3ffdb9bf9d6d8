// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// metadata is what SOPS adds to a file.
type metadata struct {
	groups       []group
	threshold    int    // of groups that are needed, if there is more than one
	mac          string // encrypted
	lastModified string // what the MAC is bound to
	rules        rules
}

// group is master keys that each open the same.
type group []masterKey

// masterKey is one that a file is encrypted for.
type masterKey struct {
	kind   string // as in the metadata: age, pgp, kms
	name   string // its recipient, fingerprint or address
	sealed string // the data key, encrypted with it
}

// services are the kinds of master keys, what people call them, and the fields
// that name one.
var services = []struct {
	kind, title string
	names       []string
}{
	{"age", "age", []string{"recipient"}},
	{"pgp", "PGP", []string{"fp"}},
	{"kms", "AWS KMS", []string{"arn"}},
	{"gcp_kms", "Google Cloud KMS", []string{"resource_id"}},
	{"azure_kv", "Azure Key Vault", []string{"vault_url", "name"}},
	{"hc_vault", "Vault", []string{"vault_address", "engine_path", "key_name"}},
	{"hckms", "Huawei Cloud KMS", []string{"key_id"}},
}

// title is what people call a master key.
func (k masterKey) title() string {
	for _, s := range services {
		if s.kind == k.kind {
			return s.title + " " + k.name
		}
	}
	return k.kind
}

// readMetadata reads a map of maps, lists and texts.
func readMetadata(m map[string]any) (metadata, error) {
	modified, err := time.Parse(time.RFC3339, textOf(m, "lastmodified"))
	if err != nil {
		return metadata{}, errors.New("sops.lastmodified: is no time")
	}
	out := metadata{mac: textOf(m, "mac"), lastModified: modified.Format(time.RFC3339)}
	if out.rules, err = readRules(m); err != nil {
		return metadata{}, err
	}
	if out.groups, err = readGroups(m); err != nil {
		return metadata{}, err
	}
	out.threshold, err = readThreshold(m, len(out.groups))
	return out, err
}

func readGroups(m map[string]any) ([]group, error) {
	entries := listOf(m, "key_groups")
	if len(readGroup(m)) > 0 {
		entries = []map[string]any{m}
	}
	var groups []group
	keys := 0
	for _, entry := range entries {
		g := readGroup(entry)
		if len(g) == 0 {
			return nil, errors.New("sops.key_groups: one has no keys")
		}
		groups, keys = append(groups, g), keys+len(g)
	}
	if keys == 0 {
		return nil, errors.New("sops: names no keys")
	}
	return groups, nil
}

// readThreshold reads how many groups are needed. Of a single one it says nothing.
func readThreshold(m map[string]any, groups int) (int, error) {
	text := textOf(m, "shamir_threshold")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, errors.New("sops.shamir_threshold: is no number")
	case groups > 1 && (n < 0 || n > groups):
		return 0, fmt.Errorf("sops.shamir_threshold: is %d, and there are %d groups of keys", n, groups)
	}
	return n, nil
}

func readGroup(m map[string]any) group {
	var g group
	for _, s := range services {
		for _, entry := range listOf(m, s.kind) {
			var names []string
			for _, n := range s.names {
				names = append(names, shown(textOf(entry, n)))
			}
			g = append(g, masterKey{kind: s.kind, name: strings.Join(names, " "), sealed: textOf(entry, "enc")})
		}
	}
	return g
}

// shown is a name from a file, as it may stand in a line of text.
func shown(name string) string {
	const most = 120
	if len(name) > most {
		name = name[:most]
	}
	quoted := strconv.QuoteToASCII(name)
	if inner := quoted[1 : len(quoted)-1]; inner == name {
		return name
	}
	return quoted
}

func textOf(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// listOf are the maps of a list.
func listOf(m map[string]any, key string) []map[string]any {
	entries, _ := m[key].([]any)
	var out []map[string]any
	for _, e := range entries {
		if e, ok := e.(map[string]any); ok {
			out = append(out, e)
		}
	}
	return out
}

// The separators with which dotenv and INI files flatten their metadata, as in
// sops_age__list_0__map_recipient.
const (
	mapSeparator  = "__map_"
	listSeparator = "__list_"
)

// unflatten makes a map again of keys that hold the way to their value.
func unflatten(flat map[string]string) (map[string]any, error) {
	root := map[string]any{}
	for key, text := range flat {
		if err := plant(root, splitFlat(key), text); err != nil {
			return nil, fmt.Errorf("sops: key %s: %w", shown(key), err)
		}
	}
	m, _ := gathered(root).(map[string]any)
	return m, nil
}

// splitFlat answers the steps of a key: texts and numbers of elements.
func splitFlat(key string) []string {
	key = strings.ReplaceAll(key, mapSeparator, "\x00")
	return strings.Split(strings.ReplaceAll(key, listSeparator, "\x00#"), "\x00")
}

func plant(at map[string]any, steps []string, text string) error {
	for i, step := range steps {
		if i == len(steps)-1 {
			if _, ok := at[step]; ok {
				return errors.New("is there twice")
			}
			at[step] = text
			return nil
		}
		next, ok := at[step]
		if !ok {
			next = map[string]any{}
			at[step] = next
		}
		if at, ok = next.(map[string]any); !ok {
			return errors.New("is both a value and a map")
		}
	}
	return nil
}

// gathered turns maps whose keys are numbers of elements into lists.
func gathered(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	var l []any
	for i := 0; ; i++ {
		e, ok := m["#"+strconv.Itoa(i)]
		if !ok {
			break
		}
		l = append(l, gathered(e))
	}
	if l != nil {
		return l
	}
	for key, value := range m {
		m[key] = gathered(value)
	}
	return m
}
