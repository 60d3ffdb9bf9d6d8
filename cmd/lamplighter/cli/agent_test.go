// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"
)

// A template that lost a value must not take a guard away.
func TestAgentRefusesFlagsWithoutTheirValue(t *testing.T) {
	for _, flag := range []string{
		"--git", "--ref", "--path", "--git-auth", "--git-proxy", "--allowed-hosts", "--git-max-pack", "--cache", "--verify-keys", "--verify",
		"--decryption-keys", "--webhook-token-file", "--log-format", "--drift", "--take-over-from",
	} {
		code, stdout, stderr := runCommand(t, "agent", "--git=file:///fleet", flag+"=", "--kubeconfig=nowhere")
		if want := "lamplighter: " + flag + " is empty: give it a value, or leave the flag out\n"; code != 2 || stdout != "" || stderr != want {
			t.Errorf("%s=: exit code %d, %q, want %q", flag, code, stderr, want)
		}
	}
	for _, flag := range []string{"--listen", "--webhook", "--allow-prune"} {
		if _, _, stderr := runCommand(t, "agent", "--git=file:///fleet", flag+"=", "--kubeconfig=nowhere"); strings.Contains(stderr, "is empty") {
			t.Errorf("%s=: %q", flag, stderr)
		}
	}
}
