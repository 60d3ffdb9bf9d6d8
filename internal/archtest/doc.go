// SPDX-License-Identifier: Apache-2.0

// Package archtest holds the rules that this repository keeps about itself:
// which package may import which, what pure code may not do, what every file
// starts with, and that the documentation names commands, targets and files
// that exist. It has tests only; each says which line breaks a rule and what
// to do about it, and each rule is shown to fail on an example that breaks it.
package archtest
