#!/bin/sh
# Installs what is missing, builds what the main job needs, and runs it: doctor's lines, the theorems, a ViT trained plain
# and permuted side by side, and out/report.html. With arguments: builds the whole program and runs equigrad ARGS... instead.
set -eu
caller=$PWD
cd "$(dirname "$0")"
. scripts/common.sh

install_packages build
find_data
if [ $# = 0 ]; then
  build release equigrad_first
  exec build/release/bin/equigrad-run run
fi
build release equigrad_cli
program=$PWD/build/release/bin/equigrad
cd "$caller"
exec "$program" "$@"
