// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Every stands in a path for all entries of a list, or all keys of a map.
const Every = "*"

// hider finds what was encrypted in the tree where it has come to in objects.
type hider struct {
	byFile map[string]words // of the files that define objects
	others words            // of patches and of the files of generators, which may end up anywhere
}

func (g *graph) hider() hider {
	h := hider{byFile: map[string]words{}, others: words{}}
	for file, values := range g.fsys.encrypted {
		if slices.Contains(g.files, file) {
			h.byFile[file] = wordsOf(values)
			continue
		}
		maps.Copy(h.others, wordsOf(values))
	}
	return h
}

// words are texts that were encrypted, and those that are long enough to be looked
// for within others.
type words map[string]bool

func wordsOf(values []string) words {
	w := words{}
	for _, v := range values {
		w[v] = w[v] || len(v) >= shortest
		for _, line := range lines(v) {
			w[line] = true
		}
	}
	delete(w, "")
	return w
}

func (w words) are(text string) bool { _, ok := w[text]; return ok }

func (w words) areIn(text string) bool {
	for word, long := range w {
		if long && strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// hidden are the paths of an object's fields that hold what was encrypted. Of a
// ConfigMap it is all data, as of a Secret: what is not secret now may have been.
// What names the object is not among them.
func (h hider) hidden(o Object) [][]string {
	own := h.byFile[o.File]
	if o.GetKind() == "Secret" || len(own)+len(h.others) == 0 {
		return nil
	}
	found := map[string][]string{}
	each(o.Object, nil, func(path []string, text string) {
		isData := o.GetKind() == "ConfigMap" && len(path) > 1 && strings.HasSuffix(strings.ToLower(path[0]), "data")
		if isData && path[0] == "binaryData" {
			if data, err := base64.StdEncoding.DecodeString(text); err == nil {
				text = string(data)
			}
		}
		switch {
		case isData && (own.are(text) || h.others.are(text) || own.areIn(text) || h.others.areIn(text)):
			path = []string{path[0], Every}
		case isData, names(path), !own.are(text) && !own.areIn(text) && !h.others.areIn(text):
			return
		}
		found[strings.Join(path, "\x00")] = slices.Clone(path)
	})
	var out [][]string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out
}

func names(path []string) bool {
	switch strings.Join(path, ".") {
	case "apiVersion", "kind", "metadata.name", "metadata.namespace":
		return true
	}
	return false
}

// each calls do for each text and number in v.
func each(v any, path []string, do func(path []string, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			each(value, append(path, key), do)
		}
	case []any:
		for _, value := range v {
			each(value, append(path, Every), do)
		}
	case nil, bool: // hides nothing
	default:
		do(path, fmt.Sprint(v))
	}
}

// Redact hides in a text what was encrypted in the tree, as *** for each.
func (o Output) Redact(text string) string { return redact(text, o.encrypted) }
