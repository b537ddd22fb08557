#!/usr/bin/env bash
# setuptools-rust calls this instead of cargo (setup.py), as it gives a program no flags of its own: the agent is linked
# statically. With flags for all, the crates below it would not be those of the other programs, and built once more.
set -euo pipefail
# It would call this script again.
unset CARGO

if [[ ${1:-} == build && " $* " == *" crates/agent/Cargo.toml "* ]]; then
    exec cargo rustc --bin stealtime-agent "${@:2}" -- -C target-feature=+crt-static
fi
exec cargo "$@"
