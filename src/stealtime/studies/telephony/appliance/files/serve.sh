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
# Waits until a UDP port, given in hexadecimal, is listened on: Kamailio leaves alone an rtpengine silent at first.
await_port() {
    until $b grep -q ":$1 " /proc/net/udp; do $b sleep 0.1; done
}
