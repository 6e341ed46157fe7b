#!/bin/sh
# Runs nvcc and keeps what scripts/cuda_kernels.py reads, in OBJECT.kept: PTX, machine code, and what ptxas says of each
# kernel. Everything else that nvcc says is shown.
#   compile.sh OBJECT NVCC ARGUMENTS...
set -eu
kept=$1.kept
shift
rm -rf "$kept"
mkdir -p "$kept"
status=0
"$@" --keep --keep-dir "$kept" --resource-usage 2>"$kept/ptxas.txt" || status=$?
grep -Ev '^(ptxas|nvlink) info |^ +[0-9]+ bytes stack frame, ' "$kept/ptxas.txt" >&2 || :
find "$kept" -type f ! -name '*.ptx' ! -name '*.cubin' ! -name ptxas.txt -delete
exit $status
