# shellcheck shell=bash
# Sourced by the other scripts: one line for each step, its output in a log that is shown when the step fails.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
export UV_PYTHON_DOWNLOADS=never
# rustup puts cargo here and relies on a login shell to find it.
export PATH="$HOME/.cargo/bin:$PATH"
logs=.tools/logs

# stop MESSAGE HINT: ends with exit code 2, as a wrong command line does: the user has to do something first.
stop() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

# step NAME COMMAND...: runs COMMAND quietly; NAME is what is printed and, with dashes, the name of the log.
step() {
    local name=$1 log started_s=$SECONDS
    shift
    mkdir -p "$logs"
    log="$logs/${name// /-}.log"
    printf '%s ... ' "$name" >&2
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'done (%d s)\n' $((SECONDS - started_s)) >&2
    else
        local status=$?
        printf 'failed (exit code %d)\n' "$status" >&2
        tail -n 40 "$log" | sed 's/^/    /' >&2
        printf 'error: %s failed\nhint: the whole log is in %s\n' "$name" "$log" >&2
        return "$status"
    fi
}
