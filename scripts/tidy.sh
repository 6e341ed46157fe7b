#!/bin/sh
# clang-format and clang-tidy over the tree, or over the files given. Needs build/dev/compile_commands.json, which
# `./test.sh tidy` makes.
set -eu
cd "$(dirname "$0")/.."
scripts/format.sh
[ $# -gt 0 ] || set -- $(git ls-files '*.cpp' | grep -v '^tests/compile/\|^tests/consumer/')
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/dev
