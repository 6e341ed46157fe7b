#!/bin/sh
# Installs what is missing, builds `release`, and runs the main job: doctor's lines, the theorems, a ViT trained plain
# and permuted side by side, and out/report.html. With arguments: equigrad ARGS... instead.
set -eu
caller=$PWD
cd "$(dirname "$0")"
. scripts/common.sh

install_packages build
build release equigrad_cli
find_data

program=$PWD/build/release/bin/equigrad
if [ $# -gt 0 ]; then
  cd "$caller"
  exec "$program" "$@"
fi
exec "$program" run
