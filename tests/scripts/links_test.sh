#!/bin/sh
# links_test.sh ROOT PYTHON: the links of the tree's pages lead somewhere, and scripts/check_links.py finds those that
# do not.
set -eu
check=$1/scripts/check_links.py
"$2" "$check" "$1"

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
printf '# A page\n[itself](#a-page) [file](gone.md) [heading](#gone) `[code](no)`\n```\n[listing](no)\n```\n' >"$folder/page.md"
found=$("$2" "$check" "$folder") && exit 1
[ "$found" = "page.md:2: gone.md
page.md:2: #gone" ]
