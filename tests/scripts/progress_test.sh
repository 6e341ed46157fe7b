#!/bin/sh
# What show_progress (scripts/common.sh) makes of ninja's lines.
set -eu
. "$1/scripts/common.sh"
object=core/CMakeFiles/equigrad_core.dir/ops/softmax/softmax.cpp.o
group=permute/CMakeFiles/equigrad_permute.dir/Unity/unity_3_cxx.cxx.o
failures=0

# shows LINE WORDS: the line becomes these words.
shows() {
  shown=$(printf '%s\n' "$1" | show_progress 2>&1 | tr '\r' '\n' | sed 's/\x1b\[K//g' | sed '/^$/d')
  [ "$shown" = "$2" ] && return
  printf '%s\n  is shown as   %s\n  and should be %s\n' "$1" "$shown" "$2" >&2
  failures=$((failures + 1))
}

shows "@137 230 340.7@ Building CXX object $object" '[137/230] core: softmax.cpp, about 4 min left'
shows "@100 230 40.2@ Building CXX object $group" '[100/230] permute: files 25 to 32, about 52 s left'
shows "@3 230 1.5@ Building CXX object $object" '[3/230] core: softmax.cpp'
shows "@230 230 300.0@ Linking CXX executable bin/equigrad-run" '[230/230] equigrad-run'
shows "FAILED: $object" "FAILED: $object"
shows '../../core/ops/softmax/softmax.cpp:3:1: error: expected' '../../core/ops/softmax/softmax.cpp:3:1: error: expected'
shows 'ninja: no work to do.' ''
exit "$failures"
