#!/bin/sh
# Builds the explorer: build/explorer/index.html with its files, and build/explorer/explorer.html, the same in one file.
#   ./scripts/explorer.sh         as it is released
#   ./scripts/explorer.sh wasm    with the engine of that preset, which holds the laws too and is larger, for tests: in
#                                 build/explorer-wasm
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh

preset=${1-page}
case $preset in page | wasm) ;; *) die "explorer.sh: there is no preset '$preset' for pages; there are page and wasm" ;; esac

install_packages build wasm explorer
NODE_PATH=/usr/share/nodejs${NODE_PATH:+:$NODE_PATH} # emscripten's JavaScript libraries, for a Node not of Debian
CCACHE_COMPILERTYPE=clang
export NODE_PATH CCACHE_COMPILERTYPE
build "$preset" explorer_engine
engine=build/$preset/apps/explore/wasm
web=apps/explore/web
pages=build/explorer
if [ "$preset" != page ]; then pages=$pages-$preset; fi
parts=$pages-parts
mkdir -p "$parts"

say "Checking and bundling the pages"
tsc --project "$web"
python3 scripts/pack_explorer.py formulas "$parts/formulas.json"
python3 scripts/pack_explorer.py chapters "$parts/chapters.json"
python3 scripts/pack_explorer.py font "$parts/math.woff2"
esbuild "$web/src/worker.ts" --bundle --minify --format=iife --target=es2021 --log-level=warning --outfile="$parts/worker.js"
python3 scripts/pack_explorer.py worker "$engine/engine.js" "$parts/worker.js" "$parts/worker.txt"
esbuild "$web/src/main.ts" --bundle --minify --format=iife --target=es2021 --charset=utf8 --log-level=warning \
  --loader:.cpp=text --loader:.py=text --loader:.txt=text \
  --alias:formulas="./$parts/formulas.json" --alias:chapters="./$parts/chapters.json" --alias:worker-source="./$parts/worker.txt" --outfile="$parts/explorer.js"
python3 scripts/pack_explorer.py pages "$engine/engine.wasm" "$parts/explorer.js" "$parts/math.woff2" "$pages"
say "$pages/index.html and $pages/explorer.html"
