#!/bin/sh
# Builds the site into build/site: every page of the tree, the C++ and the Python reference, search, formulas, and the
# explorer where build/explorer has it. It needs no network when it is looked at, and opens from a folder: build/site/index.html.
#   scripts/site.sh        builds the Python module (preset check) for its stubs, then the site, and checks it
# A link that leads nowhere, a name that the reference lacks and anything that a page would fetch is an error.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh

install_packages build test python site
with_python check
build check equigrad_python

environment=build/site-environment
requirements=scripts/site/requirements.txt
if ! cmp -s "$requirements" "$environment/requirements.txt"; then
  say "Making $environment: MkDocs and griffe from PyPI"
  python3 -m venv --clear "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
  cp "$requirements" "$environment/requirements.txt"
fi

say "Building build/site"
export PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1
package=build/check/python/equigrad
"$environment/bin/python" scripts/site/stage.py "$package" build/site-stage >&2
"$environment/bin/mkdocs" build --strict --quiet --clean -f build/site-stage/mkdocs.yml >&2
rm build/site/404.html # for a server that has the site at its root; this one lies anywhere
"$environment/bin/python" scripts/site/check.py build/site "$package"
