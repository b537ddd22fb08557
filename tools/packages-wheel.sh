#!/usr/bin/env bash
# Builds dist/packages/stealtime-*-manylinux_2_28_x86_64.whl: one wheel for every distribution since 2018. auditwheel
# reads the version symbols of all that is in it, and refuses it if a newer glibc would be needed.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
export STEALTIME_GLIBC=2.28
platform="manylinux_${STEALTIME_GLIBC/./_}_x86_64"

here=$PWD
export PATH="$here/.tools/packaging/bin:$PATH"
# Nothing is left outside of this folder.
export ZIG_GLOBAL_CACHE_DIR="$here/.tools/zig" CARGO_ZIGBUILD_CACHE_DIR="$here/.tools/zig/cargo-zigbuild"
# uv puts a Python of its own before PATH, and zig is a package of this one.
export CARGO_ZIGBUILD_PYTHON_PATH="$here/.tools/packaging/bin/python"
# A folder of its own: cargo does not know by which linker a file was made, and would take it for this.
export CARGO="$here/tools/packages-cargo.sh" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/target}/packages"

rm -rf build dist/packages/wheel dist/packages/*.whl
step "build the wheel for glibc $STEALTIME_GLIBC" \
    uv_or_cached build --wheel --no-create-gitignore --out-dir dist/packages/wheel
step "audit the wheel" auditwheel repair --only-plat --plat "$platform" --wheel-dir dist/packages \
    dist/packages/wheel/*.whl
rm -r dist/packages/wheel
ls dist/packages/*.whl
