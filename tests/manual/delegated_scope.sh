#!/usr/bin/env bash
# Boots Debian with systemd and cgroup v2 in a QEMU TCG guest and runs delegated_scope.py in it. By hand, as root, after
# `make setup`: it fetches a Debian (100 MB, mmdebstrap) and takes some 5 minutes, all in a temporary folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
script='from stealtime.lab.image.kernel import find_kernel; print(find_kernel("cloud").boot_image)'
kernel=$(.venv/bin/python -c "$script")
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,python3 bookworm "$work/root.tar"
mkdir -p "$work/root/opt/site" "$work/root/opt/bin"
tar -C "$work/root" -xf "$work/root.tar" \
  --exclude='./dev/*' --exclude='./usr/share/doc/*' --exclude='./usr/share/locale/*'
site=$(.venv/bin/python -c 'import pydantic, pathlib; print(pathlib.Path(pydantic.__file__).parents[1])')
cp -a "$site"/{pydantic,pydantic_core,annotated_types,typing_extensions.py,typing_inspection,psutil} \
  "$site"/stealtime-*.dist-info src/stealtime "$work/root/opt/site"
cp .venv/bin/stealtime-agent "$work/root/opt/bin"
cp tests/manual/delegated_scope.py "$work/root/opt"
cat > "$work/root/etc/systemd/system/proof.service" <<'UNIT'
[Service]
Type=oneshot
Environment=PYTHONPATH=/opt/site STEALTIME_AGENT=/opt/bin/stealtime-agent HOME=/root
ExecStart=/usr/bin/python3 /opt/delegated_scope.py
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/dev/ttyS0
StandardError=file:/dev/ttyS0
[Install]
WantedBy=multi-user.target
UNIT
mkdir -p "$work/root/etc/systemd/system/multi-user.target.wants"
ln -s ../proof.service "$work/root/etc/systemd/system/multi-user.target.wants"
(cd "$work/root" && find . | cpio --quiet -o -H newc) | zstd -q -1 > "$work/root.cpio.zst"
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 2 -m 3G -nodefaults \
  -nographic -no-reboot \
  -kernel "$kernel" -initrd "$work/root.cpio.zst" -serial stdio \
  -append "console=ttyS0 quiet panic=-1 rdinit=/lib/systemd/systemd systemd.unified_cgroup_hierarchy=1" \
  | tee "$work/console"
grep -q '^PROVED' "$work/console"
