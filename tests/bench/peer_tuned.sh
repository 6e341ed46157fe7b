#!/bin/sh
# peer_tuned.sh ARGS...: peer_step.py with the settings under which PyTorch from Debian runs best (README.md beside this
# file). OPENBLAS_DIR: folder with libopenblas.so.0 of libopenblas0-openmp; CORE: OpenBLAS's kernels (default: its own
# choice); PYTHON: default /usr/bin/python3.
set -eu
export LD_LIBRARY_PATH="${OPENBLAS_DIR-/usr/lib/x86_64-linux-gnu/openblas-openmp}${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS-2}"
# Keep memory instead of handing it back to the system after every operation.
export MALLOC_TOP_PAD_=1073741824 MALLOC_MMAP_THRESHOLD_=4294967295 MALLOC_TRIM_THRESHOLD_=4294967295
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1 # transparent huge pages for the heap
if [ -n "${CORE-}" ]; then export OPENBLAS_CORETYPE="$CORE"; fi
exec "${PYTHON-/usr/bin/python3}" "$(dirname "$0")/peer_step.py" "$@"
