#!/bin/busybox sh
# /init of the guest: mounts, modules, the address, then the servers for ever.
b=/bin/busybox
$b mkdir -p /proc /sys /dev /tmp /run
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
$b mount -t tmpfs tmpfs /tmp
$b mount -t tmpfs tmpfs /run
exec </dev/console >/dev/console 2>&1
while read -r module; do
    $b insmod "$module" || echo "stealtime: $module cannot be loaded"
done </etc/stealtime/modules
for word in $($b cat /proc/cmdline); do
    case $word in
    stealtime.address=*) address=${word#*=} ;;
    stealtime.gateway=*) gateway=${word#*=} ;;
    esac
done
# Who asks for a closed port is told so each time, not once a second: many are asked for at once, to see which of them
# the relay has left open.
echo 0 >/proc/sys/net/ipv4/icmp_ratemask
$b ip link set lo up
$b ip address add "$address" dev eth0
$b ip link set eth0 up
[ -z "$gateway" ] || $b ip route add default via "$gateway"
while :; do
    $b sh /etc/stealtime/serve
    $b sleep 1
done
