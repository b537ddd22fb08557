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
# What cargo will tell of, in each of the builds that setuptools-rust starts: all crates that one needs.
crates_in_all() {
    local crate
    while read -r crate; do
        cargo tree --offline --package "stealtime-$crate" --edges normal,build --prefix none |
            sed 's/ (\*)$//' | sort -u
    done < <(sed -n 's|^path = "crates/\(.*\)/Cargo.toml"|\1|p' pyproject.toml) | wc -l
}

# what_is_built LOG: says how far the build is; cargo names a crate when it begins with it, or finds it built.
what_is_built() {
    local begun
    begun=$(grep -cE '^(DEBUG)? *(Compiling|Fresh) ' "$1" || true)
    if ((begun == 0)); then
        echo "packages of Python"
    elif ((begun < crates)); then
        echo "crate $begun of $crates: $(sed -nE 's/^(DEBUG)? *(Compiling|Fresh) ([^ ]+).*/\3/p' "$1" | tail -n 1)"
    else
        echo "all $crates crates are begun; putting the package together"
    fi
}

# The distribution's own Python is what users have, and is built to be fast: one that pyenv has built, which is often
# first on PATH, is slower.
own_python=/usr/bin/python3
if [[ -x $own_python ]] && $own_python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    export UV_PYTHON=${UV_PYTHON:-$own_python}
fi
if [[ ! -e .venv/.built ]]; then
    echo "the first time, all is compiled: 2 to 6 minutes on two CPUs, less on more" >&2
fi
step "fetch the crates" cargo fetch --locked
crates=$(crates_in_all)
how_far=what_is_built step "build the environment" uv_or_cached sync --locked --verbose
# Where Python may not write beside what it loads, each start would compile all of it: a quarter of a second.
step "compile the package's own files" .venv/bin/python -m compileall -q src
# Make compares this file's time with those of the sources.
touch .venv/.built
