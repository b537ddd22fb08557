#!/bin/busybox sh
# /init of the first-level machine: the host's root file system, read-only under an overlay, and what else a host has.
# What is written is forgotten, but for /exchange, which is a folder of the host.
busybox=/bin/busybox
"$busybox" mount -t proc none /proc
"$busybox" mount -t sysfs none /sys
"$busybox" mount -t devtmpfs none /dev
while read -r module; do
    # As modprobe does: kvm_amd.npt=0 on the kernel's command line is a parameter of that module.
    name=$("$busybox" basename "${module%%.ko*}" | "$busybox" tr - _)
    parameters=$("$busybox" tr ' ' '\n' </proc/cmdline | "$busybox" sed -n "s/^$name\.//p")
    # shellcheck disable=SC2086 # several words
    "$busybox" insmod "$module" $parameters || echo "first level: $module cannot be loaded"
done </etc/stealtime/modules

"$busybox" mkdir -p /below /above /whole
options=trans=virtio,version=9p2000.L,msize=512000
"$busybox" mount -t 9p -o "$options,cache=loose,ro" root /below || exec "$busybox" poweroff -f
"$busybox" mount -t tmpfs -o size=3g none /above
"$busybox" mkdir /above/upper /above/work
"$busybox" mount -t overlay -o lowerdir=/below,upperdir=/above/upper,workdir=/above/work none /whole ||
    exec "$busybox" poweroff -f
for folder in proc sys dev; do
    "$busybox" mount -o move "/$folder" "/whole/$folder"
done
"$busybox" mkdir -p /whole/dev/shm /whole/dev/pts /whole/exchange
"$busybox" mount -t tmpfs none /whole/dev/shm
"$busybox" mount -t devpts none /whole/dev/pts
"$busybox" mount -t tmpfs none /whole/run
"$busybox" mount -t tracefs none /whole/sys/kernel/tracing
"$busybox" mount -t debugfs none /whole/sys/kernel/debug
"$busybox" mount -t cgroup2 none /whole/sys/fs/cgroup
"$busybox" mount -t 9p -o "$options" exchange /whole/exchange || exec "$busybox" poweroff -f

# QEMU's translator, which runs the processors as threads, trips when the kernel patches code that another processor is
# running. So what would be patched again and again is switched on once, by the only processor there is meanwhile, and
# stays: two unused sets of trace buffers (the third user of an event is only one more in a list), statistics of
# waiting, a CPU quota, and below a machine of KVM.
echo 0 >/whole/sys/devices/system/cpu/cpu1/online
for number in 1 2; do
    instance=/whole/sys/kernel/tracing/instances/kept-$number
    "$busybox" mkdir "$instance"
    echo 0 >"$instance/tracing_on"
    for event in sched/sched_switch sched/sched_waking sched/sched_stat_runtime irq irq_vectors nmi \
        kvm/kvm_exit kvm/kvm_entry signal/signal_deliver raw_syscalls/sys_enter; do
        echo 1 >"$instance/events/$event/enable"
    done
done
echo 1 >/whole/proc/sys/kernel/sched_schedstats
echo +cpu >/whole/sys/fs/cgroup/cgroup.subtree_control
"$busybox" mkdir /whole/sys/fs/cgroup/kept
echo "50000 100000" >/whole/sys/fs/cgroup/kept/cpu.max
echo 1 >/whole/sys/devices/system/cpu/cpu1/online

# As systemd's udev rules do on a host.
"$busybox" chmod 666 /whole/dev/kvm

"$busybox" cat >/whole/run/commands.sh <<'END'
ip link set lo up
. /exchange/environment
# KVM_CREATE_VM
.venv/bin/python -c "import fcntl, signal; kvm = open('/dev/kvm'); fcntl.ioctl(kvm, 0xAE01, 0); signal.pause()" &
if [[ -e /exchange/shell ]]; then
    echo "KVM runs here, inside an emulated machine: its times mean nothing. Leave with exit."
    setsid --ctty bash --noprofile -i <>/dev/ttyS0 >&0 2>&1
else
    exec 3<>/dev/ttyS1
    stty -F /dev/ttyS1 raw -echo
    echo ready >&3
    while read -r number command <&3; do
        bash -c "$command" </dev/null >"/exchange/$number.log" 2>&1
        echo "$number $?" >&3
    done
fi
echo o >/proc/sysrq-trigger
sleep 60
END
export HOME=/root TERM=linux PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin

if "$busybox" grep -qw stealtime.systemd /whole/proc/cmdline; then
    units=/whole/run/systemd/system
    "$busybox" mkdir -p "$units"
    # It would look through all of the host's /tmp and /var.
    "$busybox" ln -s /dev/null "$units/systemd-tmpfiles-setup.service"
    printf '[Unit]\nWants=basic.target\nAfter=basic.target\n[Service]\nExecStart=/bin/bash /run/commands.sh\n' \
        >"$units/commands.service"
    printf '[Unit]\nRequires=commands.service\nAllowIsolate=yes\n' >"$units/commands.target"
    exec "$busybox" switch_root /whole /lib/systemd/systemd --system --unit=commands.target
fi
exec "$busybox" switch_root /whole /bin/bash /run/commands.sh
