#!/usr/bin/env bash
# Builds .venv from uv.lock: the Python packages, this package (editable), its Rust module and the agent.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null ||
    stop "cargo was not found" "install Rust $wanted or newer from https://rustup.rs"
found=$(rustc --version | cut -d' ' -f2)
[[ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" == "$wanted" ]] ||
    stop "Rust $wanted or newer is needed, and rustc is $found" "rustup update stable, or https://rustup.rs"

tools/packages.sh build
tools/uv.sh
step "build the environment" .tools/uv/bin/uv sync --locked --verbose
# Make compares this file's time with those of the sources.
touch .venv/.built
