#!/bin/sh
# Builds the sandbox into OUT. The version stamp matters: kubectl cannot parse
# the version that an unstamped API server reports.
set -eu
[ $# -eq 1 ] || { echo "usage: build.sh OUT" >&2; exit 2; }
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
cd "$(dirname "$0")"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
pkg=k8s.io/component-base/version
trap "rm -f $out.$$" EXIT
CGO_ENABLED=0 go build -trimpath -o "$out.$$" -ldflags "-s -w \
  -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*} -X $pkg.gitTreeState=clean" .
mv "$out.$$" "$out" # a sandbox that runs now keeps its file
