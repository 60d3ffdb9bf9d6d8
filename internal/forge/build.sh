#!/bin/sh
# Makes the folder OUT with a Gitea in it and the files that it reads while it
# runs: what its own releases embed.
set -eu
[ $# -eq 1 ] || { echo "usage: build.sh OUT" >&2; exit 2; }
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
cd "$(dirname "$0")"

trap 'rm -rf "$out.$$"' EXIT
mkdir -p "$out.$$"
version=$(go list -m -f '{{.Version}}' code.gitea.io/gitea)
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${version#v}" -o "$out.$$/gitea" .
source=$(go list -m -f '{{.Dir}}' code.gitea.io/gitea)
cp -R "$source/options" "$source/public" "$source/templates" "$out.$$"
chmod -R u+w "$out.$$"
rm -rf "$out"
mv "$out.$$" "$out"
