// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
)

// didYouMean is the second half of a message: the nearest word, or what else to
// do when none is near.
func didYouMean(word string, known []string, otherwise string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ": " + otherwise
}

// Nearest is the known word with the fewest edits, if they are few for its length; "" when there is none.
func Nearest(word string, known []string) string {
	const longest = 64
	best, fewest := "", 3
	if len(word) > longest {
		return best
	}
	for _, k := range known {
		d := edits(strings.ToLower(word), strings.ToLower(k))
		if d < fewest && d*2 < len(k) {
			best, fewest = k, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// oneOfWords joins words as a choice: "A, B or C".
func oneOfWords(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// shorten clips what somebody wrote to what fits in a message.
func shorten(s string) string {
	const longest = 80
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}
