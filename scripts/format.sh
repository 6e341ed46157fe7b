#!/bin/sh
# Says which sources clang-format would change; with --fix it changes them.
set -eu
cd "$(dirname "$0")/.."
mode="--dry-run --Werror"
[ "${1-}" = --fix ] && mode=-i
# shellcheck disable=SC2086
git ls-files -z '*.h' '*.cpp' '*.cu' | xargs -0 clang-format $mode
