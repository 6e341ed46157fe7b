#!/bin/sh
# Checks the device module on a machine with a GPU that has neither a compiler nor this project's packages.
#   scripts/on_gpu.sh pack        here: builds module, programs and tests, and packs them into build/on_gpu (needs nvcc)
#   build/on_gpu/on_gpu.sh run    there: runs what was packed, and ends with one table
# `run` takes EQUIGRAD_CUDA_MODULE for another module; with the emulated one it tries the script itself, without a GPU.
set -eu

pack() {
  cd "$(dirname "$0")/.."
  . scripts/common.sh
  install_packages build test
  cuda_compiler
  build cuda equigrad_cuda
  build check device_tests equigrad_cli
  out=build/on_gpu
  rm -rf "$out"
  mkdir -p "$out/lib"
  cp build/cuda/core/cuda/nvcc/libequigrad_cuda.so build/check/tests/device_tests build/check/bin/equigrad scripts/on_gpu.sh "$out"
  strip "$out"/device_tests "$out"/equigrad
  # The system's own libraries stay: the C library must be that machine's.
  for program in "$out"/device_tests "$out"/equigrad; do
    ldd "$program" | awk '$3 ~ /^\// { print $3 }' | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
      while read -r library; do cp -Ln "$library" "$out/lib"; done
  done
  say "Packed $(du -sh "$out" | cut -f1) into $out; carry it, and there run: on_gpu.sh run"
}

# check NAME COMMAND...: runs it, keeps its output in results/NAME.txt, and adds a line to the table.
check() {
  name=$1
  shift
  began=$(date +%s)
  if "$@" >"results/$name.txt" 2>&1; then state=passed; else state="FAILED ($?)"; fi
  printf '%-34s %-12s %5d s  %s\n' "$name" "$state" $(($(date +%s) - began)) \
    "$(grep -E '^\[doctest\] assertions|ms a step|ERROR SUMMARY' "results/$name.txt" | tail -1)" | tee -a results/table.txt
}

run() {
  cd "$(dirname "$0")"
  export LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export EQUIGRAD_CUDA_MODULE="${EQUIGRAD_CUDA_MODULE:-$PWD/libequigrad_cuda.so}"
  mkdir -p results
  : >results/table.txt
  { command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader; } |
    tee -a results/table.txt
  check doctor ./equigrad doctor
  check tensors ./device_tests --source-file='*storage.cpp'
  EQUIGRAD_CUDA_CHECK=1
  export EQUIGRAD_CUDA_CHECK
  check laws ./device_tests --source-file='*rows.cpp'
  check others ./device_tests --source-file-exclude='*rows.cpp,*storage.cpp'
  unset EQUIGRAD_CUDA_CHECK
  if command -v compute-sanitizer >/dev/null; then
    check memcheck compute-sanitizer --tool memcheck --error-exitcode 9 ./device_tests --source-file='*storage.cpp'
    check racecheck compute-sanitizer --tool racecheck --error-exitcode 9 ./device_tests --source-file='*storage.cpp'
  fi
  for case in vit-tiny vit-cifar; do
    ./equigrad bench step --help 2>/dev/null | grep -q -e --device || break
    check "bench_$case" ./equigrad bench step --case "$case" --device cuda
  done
  echo "All outputs are in $PWD/results; the table is results/table.txt"
}

case ${1-} in
pack) pack ;;
run) run ;;
*)
  echo "usage: on_gpu.sh pack | run" >&2
  exit 2
  ;;
esac
