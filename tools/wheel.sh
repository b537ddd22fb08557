#!/usr/bin/env bash
# Builds the wheel: package, Rust module, agent and package data in one file that needs nothing from this tree.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"

rm -f dist/stealtime-*.whl
# setuptools keeps files of earlier builds in build/lib and would pack those that are gone from the tree.
rm -rf build
step "build the wheel" uv_or_cached build --wheel --no-create-gitignore --out-dir dist
ls dist/stealtime-*.whl
