#!/usr/bin/env bash
# Shows each line of a script and each Rust comment that is wider than 120 columns, and fails if there is one.
cd "$(dirname "$0")/.." || exit
wide=$(
    git grep -nP '^(?=.{121})' -- '*.sh' .ci Makefile
    git grep -nP '^(?=.{121})\s*//' -- '*.rs'
)
[[ -z $wide ]] || { printf '%s\n' "$wide"; exit 1; }
