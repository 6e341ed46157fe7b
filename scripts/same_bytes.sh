#!/bin/sh
# Builds two commits and compares what their programs write, byte by byte (times and memory aside).
#   scripts/same_bytes.sh BASE [COMMIT] [OPTIONS]   COMMIT: default HEAD; OPTIONS: of same_bytes.py
# The programs stay in build/same_bytes/<commit>. Exit codes: 0 the same, 1 a difference, 2 a failed build or job.
set -eu
[ $# -gt 0 ] || { echo "usage: scripts/same_bytes.sh BASE [COMMIT] [OPTIONS]" >&2; exit 2; }
base=$1
shift
commit=HEAD
case ${1-} in '' | -*) ;; *) commit=$1; shift ;; esac
cd "$(dirname "$0")/.."
repository=$PWD
. scripts/common.sh
find_data

# program COMMIT: builds the release program of COMMIT once and prints its path.
program() {
  id=$(git rev-parse --verify --quiet "$1^{commit}") || die "same_bytes: there is no commit '$1'"
  kept=$repository/build/same_bytes/$id
  if [ ! -x "$kept/equigrad" ]; then
    say "Building $1 ($id)"
    tree=$kept/tree
    rm -rf "$kept"
    git clone --quiet --shared --no-checkout "$repository" "$tree"
    git -C "$tree" checkout --quiet --detach "$id"
    (cd "$tree" && . scripts/common.sh && build release equigrad_cli)
    cp "$tree/build/release/bin/equigrad" "$kept/equigrad"
    rm -rf "$tree"
  fi
  printf '%s\n' "$kept/equigrad"
}

first=$(program "$base")
second=$(program "$commit")
exec python3 scripts/same_bytes.py "$first" "$second" "$@"
