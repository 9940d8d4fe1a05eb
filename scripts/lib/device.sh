# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Builds the loadable device for the QEMU that the distribution installed.
# Source it, then call device_build.

device_lib=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib/qemu-source.sh
. "$device_lib/qemu-source.sh"
# shellcheck source=scripts/lib/qemu-headers.sh
. "$device_lib/qemu-headers.sh"

# What device_build needs, beside the system emulator itself
# shellcheck disable=SC2034
DEVICE_PACKAGES=(qemu-system-x86 qemu-system-data seabios ipxe-qemu
    gcc libc6-dev pkg-config meson ninja-build python3 dpkg-dev patch xz-utils
    libglib2.0-dev libpixman-1-dev libaio-dev liburing-dev libfdt-dev
    zlib1g-dev libisal-dev)

# device_build: builds what is out of date and exports
#   RNIC_QEMU             the distribution's emulator
#   RNIC_DEVICE_SO        for -plugin
#   RNIC_PRELOAD_SO       for LD_PRELOAD (the same file)
#   RNIC_QEMU_MODULE_DIR  for QEMU_MODULE_DIR: the qtest accelerator
device_build()
{
    local root cache version pkgversion headers build sources log
    root=$(readlink -f "$device_lib/../..")
    cache=${RNIC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rnic}

    if ! version=$(dpkg-query -W -f '${source:Version}' qemu-system-x86 \
                       2>/dev/null); then
        echo "device: the package qemu-system-x86 is not installed" >&2
        return 1
    fi
    pkgversion=$(dpkg-query -W -f '${Version}' qemu-system-x86)
    headers=$cache/qemu/${pkgversion//:/_}
    # One folder for each checkout, since meson remembers where sources are
    build=$cache/device/${pkgversion//:/_}-$(cksum <<<"$root" | cut -d' ' -f1)
    mkdir -p "$headers" "$build"

    # Two runs at once would prepare the same folders
    exec {device_lock}>"$headers/lock"
    flock "$device_lock"
    if ! qemu_headers "$version" "Debian $pkgversion" "$headers" \
                      "$(qemu_suites_here)" ||
       ! device_compile "$root" "$headers" "$build"; then
        exec {device_lock}>&-
        return 1
    fi
    exec {device_lock}>&-

    export RNIC_QEMU=/usr/bin/qemu-system-x86_64
    export RNIC_DEVICE_SO=$build/rnic.so
    export RNIC_PRELOAD_SO=$build/rnic.so
    export RNIC_QEMU_MODULE_DIR=$headers/modules
}

# device_compile ROOT HEADERS BUILD
device_compile()
{
    local root=$1 headers=$2 build=$3 log=$3/build.log sources
    local options=(-Dqemu_source="$headers/source"
        -Dqemu_build="$headers/build")

    # meson looks for source files only when it is run
    sources=$(cd "$root" &&
        find hw-rnic/core hw-rnic/qemu -name '*.c' | LC_ALL=C sort
        cat "$headers/prepared")
    if [ ! -e "$build/build.ninja" ]; then
        meson setup "${options[@]}" "$build" \
            "$root/hw-rnic/qemu/loadable" >"$log" 2>&1
    elif [ "$(cat "$build/sources" 2>/dev/null)" != "$sources" ]; then
        meson setup --reconfigure "${options[@]}" "$build" \
            "$root/hw-rnic/qemu/loadable" >"$log" 2>&1
    fi && echo "$sources" >"$build/sources" &&
        ninja -C "$build" >"$log" 2>&1 && return 0
    grep -E 'error|FAILED|ERROR' -A 3 "$log" | head -n 40 >&2
    echo "device: the build failed, see $log" >&2
    return 1
}
