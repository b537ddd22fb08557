#!/bin/busybox sh
# Starts the servers, and starts again what has ended. A connection each for thousands of phones needs as many files.
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
b=/bin/busybox
keep() {
    while :; do
        "$@"
        echo "stealtime: $1 ended with $?, and is started again"
        $b sleep 1
    done
}
# Kamailio leaves alone an rtpengine that is silent at first. These wait until one has begun: here, whose UDP port is
# given in hexadecimal, or on another machine, with address and port of its command line over TCP.
await_port() {
    until $b grep -q ":$1 " /proc/net/udp; do $b sleep 0.1; done
}
await_machine() {
    until $b nc -w 1 "$1" "$2" </dev/null >/dev/null 2>&1; do $b sleep 0.1; done
}
