#!/usr/bin/env bash
# setuptools-rust calls this instead of cargo for the wheel of `make packages`: what is loaded by the system's glibc is
# linked by zig, against the symbols of the oldest glibc that is supported, whatever the glibc of this machine is.
set -euo pipefail
# cargo-zigbuild would call this script again.
unset CARGO

# The agent brings its own glibc, which zig does not have: the system's compiler links it. It needs none of the machine
# on which it runs.
if [[ " $* " != *" crates/agent/Cargo.toml "* ]]; then
    target=(--target "x86_64-unknown-linux-gnu.${STEALTIME_GLIBC:?}")
    # Libraries are built with `rustc`, programs with `build`.
    case ${1:-} in
        rustc) exec cargo-zigbuild rustc "${target[@]}" "${@:2}" ;;
        build) exec cargo-zigbuild zigbuild "${target[@]}" "${@:2}" ;;
    esac
fi
exec "$(dirname "$0")/cargo.sh" "$@"
