// SPDX-License-Identifier: Apache-2.0

//go:build !race

package gitsource_test

// raceDetector makes the tests an order of magnitude slower.
const raceDetector = false
