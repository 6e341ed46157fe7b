#!/bin/sh
# Checks the device module on a machine with a GPU that has neither a compiler nor this project's packages.
#   scripts/on_gpu.sh pack          here: builds module, programs and tests, and packs them into build/on_gpu.tar.gz (needs nvcc)
#   on_gpu/on_gpu.sh run [NAME...]  there, unpacked: runs them, and ends with one table; NAME: these checks alone
# `run` takes EQUIGRAD_CUDA_MODULE for another module; with the emulated one it tries the script itself, without a GPU, on
# batches of one. Each check has ten minutes, or EQUIGRAD_CHECK_SECONDS; EQUIGRAD_DEVICE_ROWS=softmax,sum asks these rows alone.
set -eu

most_mib=64 # of the package

pack() {
  cd "$(dirname "$0")/.."
  . scripts/common.sh
  install_packages build test
  cuda_compiler
  build cuda equigrad_cuda
  build check device_tests
  build release equigrad_cli # what is timed
  out=build/on_gpu
  rm -rf "$out"
  mkdir -p "$out/lib"
  cp build/cuda/lib/equigrad/libequigrad_cuda.so build/check/tests/device_tests build/release/bin/equigrad scripts/on_gpu.sh \
    tests/bench/peer_step.py tests/bench/peer_text.py "$out"
  strip "$out"/device_tests "$out"/equigrad
  # The system's own libraries stay: the C library must be that machine's.
  for program in "$out"/device_tests "$out"/equigrad; do
    ldd "$program" | awk '$3 ~ /^\// { print $3 }' | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
      while read -r library; do cp -Ln "$library" "$out/lib"; done
  done
  # A module of other headers is refused there; better to hear of it here.
  opened=$(EQUIGRAD_CUDA_MODULE="$PWD/$out/libequigrad_cuda.so" "$out/equigrad" doctor)
  case $opened in
  *"was built for another equigrad"* | *"is no device module"*) die "The packed program refuses the packed module: $opened" ;;
  esac
  EQUIGRAD_CUDA_MODULE="$PWD/build/check/core/cuda/libequigrad_emulated.so" EQUIGRAD_DEVICE_HASHES_TO="$PWD/$out/hashes.txt" \
    "$out/device_tests" --source-file='*hashes.cpp' --test-case='*of the file*' >"$out/hashes.log" ||
    die "The emulated device gave no hashes; see $out/hashes.log"
  { git describe --always --dirty 2>/dev/null || echo unknown; } >"$out/commit.txt"
  tar -czf "$out.tar.gz" -C build on_gpu
  size=$(du -m "$out.tar.gz" | cut -f1)
  [ "$size" -le "$most_mib" ] || die "$out.tar.gz takes $size MiB, more than $most_mib"
  say "Packed $size MiB into $out.tar.gz, with $(wc -l <"$out/hashes.txt") hashes. There: tar xzf on_gpu.tar.gz && on_gpu/on_gpu.sh run"
}

# line NAME STATE SECONDS FIGURE: a line of the table.
line() {
  printf '%-24s %-12s %6s  %s\n' "$@" | tee -a "$table"
}

# asked NAME: this check is to run.
asked() {
  names="$names $1 "
  [ -z "$selected" ] && return
  case " $selected " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# check NAME [VARIABLE=VALUE...] COMMAND...: runs it with $libraries, keeps its output in results/NAME.txt, and adds a line to
# the table.
check() {
  name=$1
  shift
  asked "$name" || return 0
  began=$(date +%s)
  code=0
  LD_LIBRARY_PATH="$libraries" timeout -k 20 "$seconds" env "$@" >"results/$name.txt" 2>&1 || code=$?
  case $code in
  0) state=passed ;;
  124 | 137) state="TOO LONG" ;;
  *) state="FAILED ($code)" ;;
  esac
  [ "$code" = 0 ] || failures=$((failures + 1))
  line "$name" "$state" $(($(date +%s) - began)) "$(figure "results/$name.txt")"
}

# skipped NAME WHY: a check that cannot run here.
skipped() {
  if asked "$1"; then line "$1" "not run" - "$2"; fi
}

# figure FILE: what matters most in a check's output.
figure() {
  if grep -q '"ms": ' "$1"; then
    sed -n 's/.*"batch": \([0-9]*\),.*"ms": \([0-9.e+-]*\),.*"per_s": \([0-9.e+-]*\),.*/\2 ms a step of \1, \3 a second/p' "$1" | tail -1
  elif grep -q '^hashes: ' "$1"; then
    grep '^hashes: ' "$1" | tail -1
  elif grep -q 'ERROR SUMMARY\|RACECHECK SUMMARY' "$1"; then
    grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$1" | tail -1 | sed 's/^=* *//'
  elif grep -q '^\[doctest\] test cases: .*[1-9][0-9]* failed' "$1"; then
    grep '^\[doctest\] test cases' "$1" | tail -1 | sed 's/\[doctest\] //; s/  */ /g'
  elif grep -q '^\[doctest\] assertions' "$1"; then
    grep '^\[doctest\] assertions' "$1" | tail -1 | sed 's/\[doctest\] //; s/  */ /g'
  elif grep -q '^cuda:0 \|\.so: ' "$1"; then
    grep '^cuda:0 \|\.so: ' "$1" | tail -1 | sed 's/  */ /g'
  else
    tail -1 "$1"
  fi
}

# The newest cuBLASLt that the wheels of PyTorch brought, for a machine whose loader knows none.
library_of_wheels() {
  python3 - <<'PYTHON' 2>/dev/null || true
import glob, sys
print(next((f for p in sys.path for f in sorted(glob.glob(p + "/nvidia/*/lib/libcublasLt.so.13"))), ""))
PYTHON
}

run() {
  cd "$(dirname "$0")"
  here=$PWD
  selected=$*
  failures=0
  names=
  seconds=${EQUIGRAD_CHECK_SECONDS:-600}
  export EQUIGRAD_CUDA_MODULE="${EQUIGRAD_CUDA_MODULE:-$PWD/libequigrad_cuda.so}"
  if [ -z "${EQUIGRAD_CUBLASLT-}" ] && ! ldconfig -p 2>/dev/null | grep -q 'libcublasLt.so.13'; then
    EQUIGRAD_CUBLASLT=$(library_of_wheels)
    if [ -n "$EQUIGRAD_CUBLASLT" ]; then export EQUIGRAD_CUBLASLT; else unset EQUIGRAD_CUBLASLT; fi
  fi
  # Those that were packed are for the packed programs; Python keeps its own.
  own_libraries=${LD_LIBRARY_PATH-}
  packed_libraries=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  libraries=$packed_libraries
  mkdir -p results
  table=results/table.txt
  [ -z "$selected" ] || table=results/selected.txt # the whole table stays
  printf 'equigrad %s, %s\n' "$(cat commit.txt)" "$(date -u +%Y-%m-%dT%H:%MZ)" >"$table"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >>"$table" || true
  fi
  cat "$table"
  emulated=
  if LD_LIBRARY_PATH="$libraries" ./equigrad doctor 2>/dev/null | grep -q 'emulated device'; then emulated=yes; fi

  library_of_products=$emulated
  if [ -n "${EQUIGRAD_CUBLASLT-}" ] || ldconfig -p 2>/dev/null | grep -q 'libcublasLt.so.13' ||
    [ -e /usr/local/cuda/lib64/libcublasLt.so.13 ]; then library_of_products=yes; fi
  check doctor sh -c './equigrad doctor; ./equigrad doctor | grep -q "^cuda:0 "'
  if [ -z "$selected" ] && [ "$failures" -gt 0 ]; then
    cat results/doctor.txt
    echo "There is no device, so nothing else is run" >&2
    exit 1
  fi
  check tensors ./device_tests --source-file='*storage.cpp'

  # Bits: sums of products in this module's own order, since cuBLASLt has another.
  check hashes EQUIGRAD_CUDA_GEMM=own EQUIGRAD_DEVICE_HASHES=hashes.txt ./device_tests --source-file='*hashes.cpp'
  check bits EQUIGRAD_CUDA_GEMM=own ./device_tests --source-file='*device/rows.cpp' --test-case='the bits of the CPU'
  check products EQUIGRAD_CUDA_GEMM=own ./device_tests --source-file='*products.cpp'
  # Laws, with every kernel waited for, so that an error names its operation.
  if [ -n "$library_of_products" ]; then
    check laws EQUIGRAD_CUDA_CHECK=1 EQUIGRAD_CUDA_GEMM=cublaslt ./device_tests --source-file='*device/rows.cpp' \
      --test-case-exclude='the bits of the CPU'
    check products_library EQUIGRAD_CUDA_CHECK=1 EQUIGRAD_CUDA_GEMM=cublaslt ./device_tests --source-file='*cublaslt.cpp'
  else
    skipped laws "there is no libcublasLt.so.13; EQUIGRAD_CUBLASLT names it"
    skipped products_library "the same"
  fi
  check laws_own_products EQUIGRAD_CUDA_CHECK=1 EQUIGRAD_CUDA_GEMM=own ./device_tests --source-file='*device/rows.cpp' \
    --test-case-exclude='the bits of the CPU,every sample*'
  check others EQUIGRAD_CUDA_CHECK=1 ./device_tests \
    --source-file-exclude='*device/rows.cpp,*storage.cpp,*hashes.cpp,*products.cpp,*cublaslt.cpp'

  for tool in memcheck racecheck; do
    if [ -n "$emulated" ]; then
      skipped "$tool" "the emulated device is no GPU"
    elif command -v compute-sanitizer >/dev/null; then
      check "$tool" EQUIGRAD_CUDA_GEMM=own compute-sanitizer --tool "$tool" --error-exitcode 9 ./device_tests \
        --source-file='*device/rows.cpp' --test-case='every sample and its gradient'
    else
      skipped "$tool" "there is no compute-sanitizer"
    fi
  done

  peer=$(python3 -c 'import torch; print("" if torch.cuda.is_available() else "PyTorch sees no GPU")' 2>/dev/null) ||
    peer="python3 has no PyTorch"
  for case in vit-tiny vit-cifar bert-small gpt2-small gpt2-decode; do
    case $emulated$case in
    yesgpt2*) skipped "bench_$case" "takes too long on the emulated device" ;;
    yes*) check "bench_$case" ./equigrad bench step --case "$case" --device cuda --json - --batch 1 --seconds 0.01 ;;
    *) check "bench_$case" ./equigrad bench step --case "$case" --device cuda --json - ;;
    esac
    if [ -n "$peer" ]; then
      skipped "torch_$case" "$peer"
    else
      libraries=$own_libraries
      check "torch_$case" python3 peer_step.py --case "$case" --device cuda --warmup 10 --steps 50
      libraries=$packed_libraries
    fi
  done

  for name in $selected; do
    case $names in *" $name "*) ;; *) failures=$((failures + 1)) && line "$name" "NO SUCH" - "there are:$names" ;; esac
  done
  printf '\n'
  cat "$table"
  echo "$failures checks failed. All outputs are in $here/results; the table is $table"
  [ "$failures" = 0 ]
}

case ${1-} in
pack) pack ;;
run)
  shift
  run "$@"
  ;;
*)
  echo "usage: on_gpu.sh pack | run [NAME...]" >&2
  exit 2
  ;;
esac
