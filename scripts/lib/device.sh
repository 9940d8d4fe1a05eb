# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The loadable device for the QEMU that the distribution installed.

[ -n "${RNIC_DEVICE_SH:-}" ] && return
RNIC_DEVICE_SH=1

# shellcheck source=scripts/lib/qemu-headers.sh
. "$(dirname "${BASH_SOURCE[0]}")/qemu-headers.sh"

DEVICE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

DEVICE_PACKAGES=(qemu-system-x86 qemu-system-data seabios ipxe-qemu
    gcc libc6-dev pkg-config meson ninja-build python3 dpkg-dev patch xz-utils
    libglib2.0-dev libpixman-1-dev libaio-dev liburing-dev libfdt-dev
    zlib1g-dev libisal-dev)

# device_compile BUILD: (in a step)
device_compile() {
    local build=$1 setup=() inputs
    # meson looks for source files only when it is run
    inputs=$(
        find "$DEVICE_ROOT"/hw-rnic/{core,qemu} -name '*.c' | LC_ALL=C sort
        echo "$QEMU_HEADERS"
    )
    if [ "$(cat "$build/inputs" 2>/dev/null)" != "$inputs" ]; then
        [ ! -e "$build/build.ninja" ] || setup=(--reconfigure)
        meson setup "${setup[@]}" -Dqemu_source="$QEMU_HEADERS/source" \
            -Dqemu_build="$QEMU_HEADERS/build" "$build" \
            "$DEVICE_ROOT/hw-rnic/qemu/loadable"
        echo "$inputs" >"$build/inputs"
    fi
    nice -n 5 ninja -C "$build"
}

# device_build: build what is out of date, and export
#   RNIC_QEMU             the distribution's emulator
#   RNIC_DEVICE_SO        for -plugin
#   RNIC_PRELOAD_SO       for LD_PRELOAD (the same file)
#   RNIC_QEMU_MODULE_DIR  for QEMU_MODULE_DIR: the qtest accelerator
device_build() {
    local build
    need_packages "${DEVICE_PACKAGES[@]}"
    qemu_headers
    checkout_folder device "$DEVICE_ROOT"
    build=$CHECKOUT_FOLDER
    locked device step "building the loadable device" device_compile "$build"
    export RNIC_QEMU=/usr/bin/qemu-system-x86_64
    export RNIC_DEVICE_SO=$build/rnic.so
    export RNIC_PRELOAD_SO=$build/rnic.so
    export RNIC_QEMU_MODULE_DIR=$QEMU_HEADERS/modules
}
