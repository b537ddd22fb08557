#!/usr/bin/env bash
# Runs all rings: unit, guest, protect, beside these two the wheel and the browser, and cargo's tests; one count over
# all comes last.
set -uo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"
# shellcheck source=tools/rings.sh
source tools/rings.sh
begin_rings

# Rust's tests in two halves. Both select from the whole workspace: with other packages cargo would choose other
# features, and build nearly all of it again. Members that are protected wait most of the time, many of them at once.
members=(--bins --test all --test clusters --test registers)
mapfile -t tests < <(cargo metadata --no-deps --format-version 1 |
    .venv/bin/python tests/rigs/cargo_tests.py "${members[@]}")
others=(--lib "${tests[@]}")
# The profile uses what set-up has built (Cargo.toml).
every=(--workspace --locked --profile bench)
# cargo_tests NAME SELECTION... -- ARGUMENTS...: runs tests of Rust; what they print is shown where one fails.
cargo_tests() {
    local name=$1
    shift
    if ! cargo test "${every[@]}" --no-fail-fast "$@" --show-output >"$logs/cargo-$name.log" 2>&1; then
        echo "cargo" >>"$failures"
        cat "$logs/cargo-$name.log"
    fi
}
build_tests() {
    cargo test "${every[@]}" --no-run "${members[@]}" && cargo test "${every[@]}" --no-run "${others[@]}"
}

commas() {
    local IFS=,
    echo "$*"
}
# descendants PID...: all that processes have started, and so on.
descendants() {
    local pid
    for pid in $(pgrep --parent "$(commas "$@")"); do
        echo "$pid"
        descendants "$pid"
    done
}

phase "Debian packages for tests"
tools/packages.sh test || exit 2

phase "unit"
mapfile -t cpus < <(.venv/bin/python -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
# What guests boot, in what time nobody wants of the CPU that is not measured. What is not there yet, or cannot be had,
# the tests that need it ask for themselves, and say why.
chrt --idle 0 taskset --cpu-list "${cpus[0]}" .venv/bin/python tests/rigs/fetch_guests.py >"$logs/fetch.log" 2>&1 &
fetch=$!
tools/unit.sh 2>&1 | tee "$logs/pytest-unit.log"
((PIPESTATUS[0] == 0)) || echo unit >>"$failures"

# What measures has the machine for itself. Commands wait for what they start, and hosts that die for timeouts, most of
# the time: so several of those tests run at a time.
phase "guests: what runs beside others"
ring beside -m "beside and not truth" --numprocesses=3 --dist=loadfile tests/guest

phase "guests, and what of protection runs alone"
# Tests measure on the last CPU (tests/rigs/machines.py), and leave more than half of the first one's time to nobody.
# What computes for a long time takes that, and gives way at once to all that wakes up.
{
    chrt --idle --pid 0 "$BASHPID" && taskset --pid --cpu-list "${cpus[0]}" "$BASHPID"
    build_tests && ring wheel tests/wheel
    ring browser tests/browser
} >"$logs/giving-way.log" 2>&1 &
giving_way=$!
ring guest -m "((guest and not beside and not traced) or alone) and not truth" tests/guest tests/protect
# What is left of it has all CPUs now.
for pid in "$giving_way" "$fetch" $(descendants "$giving_way" "$fetch"); do
    taskset --all-tasks --pid --cpu-list "$(commas "${cpus[@]}")" "$pid"
    chrt --all-tasks --other --pid 0 "$pid"
done >/dev/null 2>&1
wait "$giving_way"
cat "$logs/giving-way.log"
wait "$fetch"
# Where the kernel leaves switches of a CPU out, these are on another one (tests/guest/traced_cpu.py).
ring traced -m "traced and not truth" tests/guest

phase "protection"
ring protect -m "protect and not alone and not truth" --numprocesses=2 --dist=loadfile tests/protect

phase "Rust"
step "build the Rust tests" build_tests || echo cargo >>"$failures"
cargo_tests members "${members[@]}" -- --test-threads=8 &
running=$!
cargo_tests others "${others[@]}" --
cargo_tests docs --doc --
wait "$running"
# Those that make network namespaces.
((EUID != 0)) || cargo_tests namespaces --test relay -- --ignored
.venv/bin/python tests/rigs/skips.py "$logs"/cargo-*.log || echo cargo >>"$failures"
# No test at all is no success.
for log in "$logs"/cargo-{members,others}.log; do
    grep -q '^test result: ' "$log" || echo cargo >>"$failures"
done
# Nor is a ring that never ran: what gives way goes on beside others, and nobody looks on.
for name in beside guest traced wheel browser protect; do
    tail -n 1 "$logs/pytest-$name.log" 2>/dev/null | grep -qE '[0-9]+ (passed|skipped|failed)' ||
        echo "$name" >>"$failures"
done
end_rings
