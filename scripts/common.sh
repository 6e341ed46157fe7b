# shellcheck shell=sh
# Shared by run.sh and test.sh, which source it from the root of the repository. Everything is said on stderr: stdout
# belongs to the program.

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# Names of the packages of scripts/packages.txt in the given groups ("build", "test").
packages_of() {
  awk -v groups=" $* " '!/^#/ && NF && index(groups, " " $2 " ") { print $1 }' scripts/packages.txt
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "These packages can be installed by root only, and there is no sudo. As root: apt-get install$missing"
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >/dev/null
}

# Installs what is missing of the given groups; touches nothing, and needs no network, when nothing is.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "This is not Debian; the packages needed are listed in scripts/packages.txt."
    return
  fi
  missing=
  for package in $(packages_of "$@"); do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  say "Installing Debian packages:$missing"
  # An old or empty package list is renewed; a good one is left alone.
  # shellcheck disable=SC2086
  if ! apt-get install -s -q --no-install-recommends $missing >/dev/null 2>&1 || ! apt_install $missing; then
    as_root apt-get update -q >&2
    apt_install $missing
  fi
}

# configure PRESET: once; later changes of CMake files are noticed by the build itself.
configure() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
    # Without CCACHE_DEPEND, ccache looks up a changed precompiled header by preprocessed text that holds the old one.
    export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
  fi
  [ -f "build/$1/build.ninja" ] && return
  say "Configuring build/$1"
  mkdir -p "build/$1"
  if ! cmake --preset "$1" >"build/$1/configure.log" 2>&1; then
    cat "build/$1/configure.log" >&2
    die "Configuring failed; the lines above are also in build/$1/configure.log."
  fi
}

# A Python of the build's own with what the module's build and tests take from PyPI; it sees Debian's NumPy, and PyTorch
# where that is installed.
python_environment() {
  python=$PWD/build/python-environment/bin/python
  if ! "$python" -c "import nanobind, pytest, mypy, pip" 2>/dev/null; then
    say "Making build/python-environment: nanobind, pytest and mypy from PyPI"
    system=/usr/bin/python3
    [ -x "$system" ] || system=python3
    "$system" -m venv --clear --system-site-packages build/python-environment
    "$python" -m pip install --quiet --disable-pip-version-check "nanobind>=3.1,<4" pytest mypy >&2
  fi
  # What single tests compare with, or read libraries with; they are skipped by name where it cannot be had.
  for module in basedpyright=basedpyright tensorboard=tensorboard elftools=pyelftools; do
    "$python" -c "import ${module%=*}" 2>/dev/null ||
      "$python" -m pip install --quiet --disable-pip-version-check "${module#*=}" >&2 ||
      say "${module#*=} cannot be had from PyPI"
  done
}

# A Python of the build's own with Playwright from PyPI, which drives Debian's Chromium; tests/browser finds it there.
browser_environment() {
  browser_python=$PWD/build/browser-environment/bin/python
  if ! "$browser_python" -c "import playwright" 2>/dev/null; then
    say "Making build/browser-environment: Playwright from PyPI"
    system=/usr/bin/python3
    [ -x "$system" ] || system=python3
    "$system" -m venv --clear build/browser-environment
    "$browser_python" -m pip install --quiet --disable-pip-version-check "playwright>=1.50,<2" >&2
  fi
}

# with_python PRESET: the same build with the Python module in it.
with_python() {
  python_environment
  configure "$1"
  if ! grep -q "^EQUIGRAD_PYTHON:BOOL=ON" "build/$1/CMakeCache.txt"; then
    cmake --preset "$1" -DEQUIGRAD_PYTHON=ON -DPython_EXECUTABLE="$python" >"build/$1/configure.log" 2>&1 ||
      { cat "build/$1/configure.log" >&2; die "Configuring the Python module failed."; }
  fi
}

# Puts nvcc on the PATH: the machine's own, else that of PyPI's wheels in build/cuda-toolkit.
cuda_compiler() {
  [ -x /usr/local/cuda/bin/nvcc ] && PATH=/usr/local/cuda/bin:$PATH
  command -v nvcc >/dev/null && return
  toolkit=$PWD/build/cuda-toolkit
  if [ ! -x "$toolkit/bin/nvcc" ]; then
    say "Getting nvcc from PyPI"
    python3 -m venv --clear build/cuda-environment
    build/cuda-environment/bin/python -m pip install --quiet --disable-pip-version-check nvidia-cuda-nvcc nvidia-nvvm \
      nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cublas >&2 || die "There is no nvcc, and PyPI cannot be reached"
    rm -rf "$toolkit"
    mkdir -p "$toolkit"
    for part in build/cuda-environment/lib/python3*/site-packages/nvidia/*/; do cp -rn "$part". "$toolkit"; done
    chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/* 2>/dev/null || true
  fi
  PATH=$toolkit/bin:$PATH
}

# unpack_debian SUITE PROCESSOR FOLDER PACKAGE...: an unpacked, not configured Debian or Ubuntu with these packages, which
# may be for another processor. Links that begin at its root are made to begin where they are.
unpack_debian() {
  unpack_suite=$1 unpack_for=$2 folder=$3
  shift 3
  [ -e "$folder/unpacked" ] && return
  rm -rf "$folder" "$folder.part"
  mkdir -p "$(dirname "$folder")"
  say "Unpacking $unpack_suite for $unpack_for in $folder"
  keys=
  if [ "$unpack_suite" = jammy ] && [ -e build/ubuntu-keys/unpacked ]; then
    keys=--keyring=$PWD/build/ubuntu-keys/usr/share/keyrings/ubuntu-archive-keyring.gpg
  fi
  if ! mmdebstrap --quiet --variant=extract --architectures="$unpack_for" --include="$(echo "$*" | tr ' ' ',')" ${keys:+"$keys"} \
    "$unpack_suite" "$folder.part" >"$folder.log" 2>&1; then
    tail -n 3 "$folder.log" >&2
    rm -rf "$folder.part"
    return 1
  fi
  find "$folder.part" -type l -lname '/*' | while IFS= read -r link; do
    ln -srfn "$folder.part$(readlink "$link")" "$link"
  done
  touch "$folder.part/unpacked"
  mv "$folder.part" "$folder"
}

# The ARM64 Debian in build/arm64-root, with the libraries that build and tests take (scripts/cmake/aarch64_toolchain.cmake).
arm_root() {
  # shellcheck disable=SC2046
  unpack_debian bookworm arm64 build/arm64-root libstdc++-12-dev python3-dev \
    $(packages_of build test | grep -vx -e g++ -e cmake -e ninja-build -e pkg-config) ||
    die "An ARM64 Debian cannot be unpacked: the lines above say why."
  # The alternative that installing OpenBLAS would set; programs open it by this name.
  ln -sf openblas-pthread/libopenblas.so.0 build/arm64-root/usr/lib/aarch64-linux-gnu/libopenblas.so.0
}

# "about 4 min", "about 20 s": seconds in words.
in_words() {
  if [ "$1" -ge 90 ]; then printf 'about %d min' $((($1 + 30) / 60)); else printf 'about %d s' "$1"; fi
}

# What ninja builds, from its line: "core: softmax.cpp" for .../equigrad_core.dir/ops/softmax/softmax.cpp.o.
built_from() {
  case $1 in
  *CMakeFiles/*.dir/*.o)
    room=${1##*CMakeFiles/}
    file=${room#*.dir/}
    room=${room%%.dir/*}
    file=${file##*/}
    file=${file%.o}
    case $file in
    # Groups of UNITY_BUILD_BATCH_SIZE files (scripts/cmake/equigrad_room.cmake).
    unity_*) file="${file#unity_}" file="files $((${file%%_*} * 8 + 1)) to $((${file%%_*} * 8 + 8))" ;;
    cmake_pch*) file="headers" ;;
    esac
    printf '%s: %s' "${room#equigrad_}" "$file"
    ;;
  *) printf '%s' "${1##*/}" ;;
  esac
}

# Reads ninja's lines, each "@DONE TOTAL SECONDS@ what it did", and shows them as one line that changes, with the time that
# is left as so far one step took. Everything else, errors above all, is shown as it is.
show_progress() {
  while IFS= read -r line; do
    case $line in
    @0\ *@*) ;; # looks for new files
    @*@*)
      status=${line#@}
      what=${status#*@ }
      # shellcheck disable=SC2086
      set -- ${status%%@*}
      seconds=${3%%.*}
      left=
      if [ "$1" -lt "$2" ] && [ "$seconds" -ge 5 ]; then left=", $(in_words $((seconds * ($2 - $1) / $1))) left"; fi
      printf '\r\033[K[%s/%s] %s%s' "$1" "$2" "$(built_from "${what##* }")" "$left" >&2
      ;;
    'ninja: Entering directory'* | 'ninja: no work to do.' | 'ninja: build stopped'*) ;;
    *) printf '\r\033[K%s\n' "$line" >&2 ;;
    esac
  done
  printf '\r\033[K' >&2
}

# build PRESET [TARGET...]: on a terminal a line that says what is built and how long it will take, elsewhere silence unless
# it fails.
build() {
  preset=$1
  shift
  configure "$preset"
  if [ ! -t 2 ]; then
    say "Building build/$preset"
    ninja -C "build/$preset" --quiet "$@" >&2 || die "Building build/$preset failed."
    return
  fi
  failed=build/$preset/build-failed
  rm -f "$failed"
  { NINJA_STATUS='@%f %t %e@ ' ninja -C "build/$preset" "$@" 2>&1 || : >"$failed"; } | show_progress
  [ ! -e "$failed" ] || die "Building build/$preset failed."
}

# The datasets beside the checkout, unless the user names others.
find_data() {
  if [ -z "${EQUIGRAD_DATA-}" ] && [ -d ../shared/data ]; then
    EQUIGRAD_DATA=$(cd ../shared/data && pwd)
    export EQUIGRAD_DATA
  fi
}
