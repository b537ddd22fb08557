#!/usr/bin/env bash
# Runs all rings: kvm, unit and browser, cargo's tests, then guest and protect; one count over all comes last.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
# shellcheck source=tools/rings.sh
source tools/rings.sh
begin_rings

# The times of machines under KVM mean nothing here, and they leave half of both CPUs idle: what measures nothing runs
# beside them, in time that nobody else wants. Building says later why it failed, or finds nothing to do.
ring kvm -m "not truth and not by_request" tests/kvm >"$logs/kvm-ring.log" 2>&1 &
kvm=$!
chrt --idle 0 .venv/bin/pytest --durations=10 tests/browser tests/wheel >"$logs/pytest-browser.log" 2>&1 &
browser=$!
chrt --idle 0 .venv/bin/pytest --durations=10 --numprocesses=2 --dist=loadfile tests/unit 2>&1 |
    tee "$logs/pytest-unit.log"
((PIPESTATUS[0] == 0)) || echo unit >>"$failures"
wait "$browser" || echo browser >>"$failures"
cat "$logs/pytest-browser.log"
chrt --idle 0 cargo test --workspace --locked --no-run >/dev/null 2>&1
wait "$kvm"
cat "$logs/kvm-ring.log"

step "build the Rust tests" cargo test --workspace --locked --no-run || echo cargo >>"$failures"
# cargo_tests NAME ARGUMENTS...: runs tests of Rust; what they print is shown where one fails.
cargo_tests() {
    local name=$1
    shift
    if ! cargo test --locked --no-fail-fast "$@" >"$logs/cargo-$name.log" 2>&1; then
        echo "cargo" >>"$failures"
        cat "$logs/cargo-$name.log"
    fi
}
# Members that are protected wait for timeouts most of the time, and leave a CPU to the others.
cargo_tests members --package stealtime-replicator --package stealtime-succession -- --show-output &
members=$!
cargo_tests others --workspace --exclude stealtime-replicator --exclude stealtime-succession -- --show-output
wait "$members"
# Those that make network namespaces.
((EUID != 0)) || cargo_tests namespaces --package stealtime-outputhold --test relay -- --ignored --show-output
.venv/bin/python tests/rigs/skips.py "$logs"/cargo-*.log || echo cargo >>"$failures"
# No test at all is no success.
for log in "$logs"/cargo-{members,others}.log; do
    grep -q '^test result: ' "$log" || echo cargo >>"$failures"
done

# What measures has the machine for itself; hosts that die wait for timeouts most of the time, so two of those tests run
# at a time.
ring guest -m "(guest or alone) and not truth" tests/guest tests/protect
ring protect -m "not alone and not truth" --numprocesses=2 --dist=loadfile tests/protect
end_rings
