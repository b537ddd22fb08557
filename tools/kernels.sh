#!/usr/bin/env bash
# Fetches the default guest kernel into the cache, so that `stealtime run` needs no network.
# Not having it is no failure: native and UML are measured without, and `stealtime run` says what is missing.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"

fetch() {
    .venv/bin/python -c 'from stealtime.lab.image.kernel import find_kernel; find_kernel("rt")'
}

fetch_with_fresh_lists() {
    # The first try fails where apt has no lists yet, or old ones with an address that is gone.
    fetch || { "${as_root[@]}" apt-get update && fetch; }
}

as_root=()
((EUID == 0)) || as_root=(sudo -n)
if step "fetch the guest kernel" fetch_with_fresh_lists; then
    touch .venv/.kernels
else
    echo "hint: sudo apt-get update, then make setup; until then the qemu platforms are missing" >&2
fi
