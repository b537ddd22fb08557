#!/usr/bin/env bash
# Fuzzes each decoder with libFuzzer for so many seconds: tools/fuzz.sh SECONDS
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
seconds=${1:?how many seconds}

cargo +nightly --version >/dev/null 2>&1 ||
    stop "cargo-fuzz needs a nightly Rust, and there is none" "rustup toolchain install nightly"
tools/packages.sh build
if [[ ! -x .tools/cargo/bin/cargo-fuzz ]]; then
    step "install cargo-fuzz" cargo install --quiet --locked --root .tools/cargo cargo-fuzz@0.13.2
fi
export PATH="$PWD/.tools/cargo/bin:$PATH"
step "build the fuzz targets" cargo +nightly fuzz build

# fuzz TARGET [GOLDEN]: begins with the recorded inputs in GOLDEN.
fuzz() {
    mkdir -p "fuzz/corpus/$1"
    step "fuzz $1 for $seconds s" cargo +nightly fuzz run "$1" "fuzz/corpus/$1" "${@:2}" -- \
        -max_total_time="$seconds" -max_len=65536
    grep '^Done ' "$logs/fuzz-$1-for-$seconds-s.log"
}
fuzz frames tests/golden/frames
fuzz trace_pages tests/golden/trace
fuzz shipping
