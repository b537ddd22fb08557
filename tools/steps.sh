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

# uv_or_cached ARGUMENT...: runs uv; where no registry is reached, its cache may have all that is wanted.
uv_or_cached() {
    .tools/uv/bin/uv "$@" || .tools/uv/bin/uv "$@" --offline
}

# moves: whether a line on standard error can be written anew.
moves() {
    [[ -t 2 && ${TERM:-dumb} != dumb ]]
}

# tell_how_far NAME LOG: until it is killed, or whoever started it has gone.
tell_how_far() {
    local told='' last='' begun_s=$SECONDS said_s=0
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        told=$("$how_far" "$2")
        if moves; then
            # The name stays; what does not fit into a line could not be taken back.
            printf '\r\e[K%.*s' "$(($(tput cols 2>/dev/null || echo 80) - 1))" \
                "$1 ... $told, $((SECONDS - begun_s)) s" >&2
        elif [[ $told != "$last" ]] && ((SECONDS - said_s >= ${SAY_EVERY_S:-30})); then
            printf '%s, %d s\n    ' "$told" $((SECONDS - begun_s)) >&2
            last=$told said_s=$SECONDS
        fi
    done
}

# step NAME COMMAND...: runs COMMAND quietly; NAME is what is printed and, with dashes, the name of the log.
# Where `how_far` names a function, what that says of the log is shown meanwhile: `how_far=function step NAME ...`.
step() {
    local name=$1 log started_s=$SECONDS status=0 teller=
    shift
    mkdir -p "$logs"
    log="$logs/${name// /-}.log"
    printf '%s ... ' "$name" >&2
    : >"$log"
    if [[ -n ${how_far:-} ]]; then
        tell_how_far "$name" "$log" &
        teller=$!
    fi
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [[ -n $teller ]]; then
        # It ends in the middle of a line, or of its sleep.
        kill "$teller" 2>/dev/null || true
        wait "$teller" 2>/dev/null || true
        ! moves || printf '\r\e[K%s ... ' "$name" >&2
    fi
    if ((status == 0)); then
        printf 'done (%d s)\n' $((SECONDS - started_s)) >&2
    else
        printf 'failed (exit code %d)\n' "$status" >&2
        tail -n 40 "$log" | sed 's/^/    /' >&2
        printf 'error: %s failed\nhint: the whole log is in %s\n' "$name" "$log" >&2
        return "$status"
    fi
}
