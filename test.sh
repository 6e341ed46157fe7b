#!/bin/sh
# Installs what the tests need, builds, and runs the tests through CTest.
#   ./test.sh        all but `device`, `browser`, `wheel`, `wasm` and what compiles once more (asan, tsan, clang, arm): some
#                    laws and fuzzers also under valgrind, and the Python module where PyPI can be reached
#   ./test.sh fast   the quick tests of `dev`: under a minute in all, once built
#   ./test.sh dev    everything in `dev` but the Python module
#   ./test.sh python the Python module: its tests, and `pip install .` of a fresh clone
#   ./test.sh asan   unit, law, split and STIP tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   ./test.sh tsan   unit, law, split and STIP tests under ThreadSanitizer
#   ./test.sh clang  everything in a build by clang, warnings as errors
#   ./test.sh tidy   clang-format and clang-tidy over the tree
#   ./test.sh device the emulator, and the laws on the emulated device
#   ./test.sh cuda   compiles and links the device module by nvcc, warnings as errors, and checks its code; needs no GPU
#   ./test.sh browser the pages and the explorer, which it builds, in Chromium, by Playwright from PyPI
#   ./test.sh arm    compiles for ARM64; unit tests, laws and the bits of exact mode run in qemu-user
#   ./test.sh wheel  makes the release's wheels for this processor (scripts/release.sh), checks and installs them
#   ./test.sh wasm   compiles the library to WebAssembly; runs the laws, the catalogue and the bits of exact mode in Node
#                    (not the laws' own mutants, nor the tests that read the docs: those run natively)
set -eu
cd "$(dirname "$0")"
. scripts/common.sh

find_data

# sanitized PRESET: the suites that reach every line of the library.
sanitized() {
  emulator=
  if [ "$1" != tsan ]; then emulator="emulator_tests emulator_checked_tests"; fi # it does not follow fibers
  # shellcheck disable=SC2086
  build "$1" unit_tests law_tests split_tests stip_tests $emulator
  # ThreadSanitizer of GCC 12 cannot start where the kernel randomises addresses with more than 28 bits.
  fixed=
  if [ "$1" = tsan ] && setarch -R true 2>/dev/null; then fixed="setarch -R"; fi
  $fixed ctest --preset "$1"
}

mode=${1-all}
case $mode in
all)
  install_packages build test python
  if (python_environment); then
    with_python check
  else
    say "Skipped: the Python module (nanobind, pytest and mypy cannot be had from PyPI)"
  fi
  build check
  ctest --preset check -LE 'wheel|device|emulator|browser'
  ;;
fast)
  install_packages build test
  build dev
  ctest --preset dev -L fast
  ;;
dev)
  install_packages build test
  build dev
  ctest --preset dev
  ;;
python)
  install_packages build test python
  with_python dev
  build dev equigrad_python
  ctest --preset dev -L python
  ;;
asan | tsan)
  install_packages build test
  sanitized "$mode"
  ;;
clang)
  install_packages build test clang
  build clang
  ctest --preset clang
  ;;
tidy)
  install_packages build test tidy
  configure tidy
  exec scripts/tidy.sh
  ;;
device)
  install_packages build test
  build check device_tests device_training_tests emulator_tests emulator_checked_tests
  ctest --preset check -R '^(device|device_training|emulator|emulator_checked)\.'
  ;;
cuda)
  install_packages build
  cuda_compiler
  build cuda equigrad_cuda
  python3 scripts/check_cuda.py build/cuda
  ;;
browser)
  install_packages build test browser
  (browser_environment) || say "Playwright cannot be had from PyPI: the tests are skipped"
  ./scripts/explorer.sh wasm # the engine that `./test.sh wasm` tests: one build for both
  build check equigrad_cli explore_door
  ctest --preset check -L browser
  ;;
arm)
  install_packages build test arm
  arm_root
  build arm unit_tests law_tests exact_bits
  ctest --preset arm -R '^(unit|laws|bits)\.' -LE long
  ;;
wheel)
  install_packages build test python release
  ./scripts/release.sh wheels
  python_environment
  EQUIGRAD_DIST=$PWD/dist "$python" -m pytest -q -rs -p no:cacheprovider python/tests/test_release.py python/tests/test_install.py
  ;;
wasm)
  install_packages build test wasm
  NODE_PATH=/usr/share/nodejs${NODE_PATH:+:$NODE_PATH} # emscripten's JavaScript libraries, for a Node not of Debian
  CCACHE_COMPILERTYPE=clang
  export NODE_PATH CCACHE_COMPILERTYPE
  build wasm
  ctest --preset wasm -LE long -E '^theorems\.(glossary|pages|sharp_)'
  ;;
*) die "test.sh: there is no mode '$mode'; there are all, fast, dev, python, asan, tsan, clang, tidy, device, wasm, cuda, browser, arm and wheel" ;;
esac
