#!/usr/bin/env bash
# setuptools-rust calls this instead of cargo (setup.py), as it gives a program no flags of its own: the agent is linked
# statically. With flags for all, the crates below it would not be those of the other programs, and built once more.
set -euo pipefail
# It would call this script again.
unset CARGO
# Which Python asks does not matter to a module for all of them (abi3), but PyO3 and what uses it would be built anew
# for each: set-up, the wheel's own environment, cargo's tests.
unset PYO3_PYTHON PYO3_ENVIRONMENT_SIGNATURE

if [[ ${1:-} == build && " $* " == *" crates/agent/Cargo.toml "* ]]; then
    exec cargo rustc --bin stealtime-agent "${@:2}" -- -C target-feature=+crt-static
fi
exec cargo "$@"
