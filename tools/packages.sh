#!/usr/bin/env bash
# Installs the Debian packages of the given rings that are missing: tools/packages.sh RING...
# Looks at each program rather than at dpkg, so that a program from elsewhere counts too, and costs milliseconds.
set -euo pipefail
# shellcheck source=tools/steps.sh
source "$(dirname "$0")/steps.sh"

missing_packages() {
    local ring test package _
    while IFS='|' read -r ring test package _; do
        [[ " $* " == *" $ring "* ]] || continue
        if [[ $test == /* ]]; then
            compgen -G "$test" >/dev/null || echo "$package"
        else
            # /usr/sbin is not on every user's PATH, but the programs there are found by full path.
            PATH="$PATH:/usr/sbin:/sbin" command -v "$test" >/dev/null || echo "$package"
        fi
    done < <(sed -e '/^#/d' -e 's/ *| */|/g' -e 's/ *$//' src/stealtime/doctor/debian_packages.txt) | sort -u
}

apt_install() {
    local as_root=()
    ((EUID == 0)) || as_root=(sudo -n)
    local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@")
    # The lists are fetched only when apt does not know a package or has an address that is gone.
    "${install[@]}" || { "${as_root[@]}" apt-get update && "${install[@]}"; }
}

rings=("$@")
mapfile -t packages < <(missing_packages "${rings[@]}")
((${#packages[@]})) || exit 0

command -v apt-get >/dev/null ||
    stop "missing: ${packages[*]}, and this is no Debian" "install what these Debian packages hold, then try again"
if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    stop "missing Debian packages: ${packages[*]}" \
        "sudo apt-get update && sudo apt-get install --no-install-recommends ${packages[*]}"
fi
step "install ${packages[*]}" apt_install "${packages[@]}"

mapfile -t packages < <(missing_packages "${rings[@]}")
((${#packages[@]} == 0)) || stop "still missing after the installation: ${packages[*]}" "see $logs"
