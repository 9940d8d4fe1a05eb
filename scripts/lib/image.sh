# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The initial RAM disk of a guest, in three layers, each a cpio archive of its
# own that the kernel unpacks over the one before: the root file system, the
# kernel's modules, and what this project builds (remade in a second or two).

[ -n "${RNIC_IMAGE_SH:-}" ] && return
RNIC_IMAGE_SH=1

# shellcheck source=scripts/lib/driver.sh
. "$(dirname "${BASH_SOURCE[0]}")/driver.sh"

modules_layer_build() {
    local tree=$1/tree
    mkdir -p "$tree/usr"
    cp -R "$RNIC_KERNEL_MODULES/lib" "$tree/usr/"
    rootfs_pack "$tree" "$1/modules.cpio.lz4"
    rm -rf "$tree"
}

# rnic_layer_build DIR: (in a step) depmod must see all modules together
rnic_layer_build() {
    local tree=$1/tree modules name
    modules=$tree/usr/lib/modules/$RNIC_KERNEL_RELEASE
    mkdir -p "$tree"/{etc/libibverbs.d,opt/rnic/bin} "$tree/usr/lib/modules"
    if [ -n "$RNIC_KO" ]; then
        cp -R "$RNIC_KERNEL_MODULES/lib/modules/$RNIC_KERNEL_RELEASE" \
            "$tree/usr/lib/modules/"
        install -D -m 644 -t "$modules/updates" "${RNIC_KO%/*}"/*.ko
        ln -s usr/lib "$tree/lib"
        depmod -b "$tree" "$RNIC_KERNEL_RELEASE"
        # The other modules are in the layer below
        rm -r "${tree:?}/lib" "$modules/kernel"
    fi
    if [ -n "$RNIC_PROVIDER_DIR" ]; then
        for name in "$RNIC_PROVIDER_DIR"/librnic-rdmav*.so; do
            install -D -m 644 -t \
                "$tree/usr/lib/x86_64-linux-gnu/libibverbs" "$name"
        done
        echo 'driver rnic' >"$tree/etc/libibverbs.d/rnic.driver"
    fi
    [ -z "$RNIC_GUEST_PROGRAMS" ] ||
        cp -R "$RNIC_GUEST_PROGRAMS/." "$tree/opt/rnic/bin/"
    rootfs_pack "$tree" "$1/rnic.cpio.lz4"
    rm -rf "$tree"
}

initrd_build() {
    # Legacy lz4 archives one after the other are one archive to the kernel
    cat "$RNIC_ROOTFS/root.cpio.lz4" "$1/modules.cpio.lz4" \
        "$2/rnic.cpio.lz4" >"$3/initrd"
}

# guest_image [bare]: after kernel_prepare or kernel_prepare_tree. Exports
# RNIC_INITRD (and, through what it calls, RNIC_ROOTFS, RNIC_KO ...; empty where
# the checkout has no such part, and all of them for a bare image: one without
# what this project builds).
guest_image() {
    local layer_key modules_layer
    RNIC_KO='' RNIC_PROVIDER_DIR='' RNIC_GUEST_PROGRAMS=''
    need_packages qemu-system-x86 qemu-system-data seabios ipxe-qemu
    rootfs_prepare
    if [ "${1:-}" != bare ]; then
        [ ! -f "$RNIC_TOP/guest-driver/kernel/Kbuild" ] || rnic_ko
        [ ! -x "$RNIC_TOP/guest-driver/provider/build.sh" ] || provider_build
        [ -z "$(find "$RNIC_TOP/tests/vm" -path '*/programs/*.c')" ] ||
            guest_programs
    fi

    layer_key=$(basename "$RNIC_KERNEL_DIR" | hash_text)
    product "modules-$RNIC_KERNEL_RELEASE" "$layer_key" \
        "packing the modules of $RNIC_KERNEL_RELEASE" modules_layer_build
    modules_layer=$PRODUCT
    layer_key=$({
        echo "$modules_layer $RNIC_KO $RNIC_PROVIDER_DIR $RNIC_GUEST_PROGRAMS"
        cat "$RNIC_TOP/scripts/lib/image.sh"
    } | hash_text)
    product "layer-$RNIC_KERNEL_RELEASE" "$layer_key" \
        "packing the driver's layer" rnic_layer_build
    # Large, made anew after each change of the driver, and quickly made
    PRODUCTS_KEPT=2 product "initrd-$RNIC_KERNEL_RELEASE" \
        "$(echo "$RNIC_ROOTFS $PRODUCT" | hash_text)" \
        "joining the guest image" initrd_build "$modules_layer" "$PRODUCT"
    RNIC_INITRD=$PRODUCT/initrd
    export RNIC_INITRD
}
