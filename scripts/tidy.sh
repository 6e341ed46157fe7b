#!/bin/sh
# clang-format and clang-tidy over the tree, or over the files given. Needs build/tidy/compile_commands.json, which
# `./test.sh tidy` makes.
set -eu
cd "$(dirname "$0")/.."
scripts/format.sh
{
  if [ $# -gt 0 ]; then
    printf '%s\0' "$@"
  else
    git ls-files -z '*.cpp' ':!tests/compile' ':!tests/consumer'
  fi
} | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option
