# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What the project adds to a guest: rnic.ko for the guest's kernel, the
# provider for the guest's rdma-core, and the tests' own guest programs.

[ -n "${RNIC_DRIVER_SH:-}" ] && return
RNIC_DRIVER_SH=1

# shellcheck source=scripts/lib/kernel.sh
. "$(dirname "${BASH_SOURCE[0]}")/kernel.sh"
# shellcheck source=scripts/lib/rdma-core.sh
. "$(dirname "${BASH_SOURCE[0]}")/rdma-core.sh"
# shellcheck source=scripts/lib/rootfs.sh
. "$(dirname "${BASH_SOURCE[0]}")/rootfs.sh"

# mirror_sources FROM TO: make TO's source files those of FROM and leave
# build products alone, so that make rebuilds only what changed
mirror_sources() {
    mkdir -p "$2"
    find "$2" -type f \( -name '*.[chS]' ! -name '*.mod.c' \
        -o -name 'Kbuild' -o -name 'Makefile' \) -delete
    cp -Rp "$1/." "$2/"
}

# kernel_make DIR [ARG]...: the modules of DIR for the kernel that
# kernel_prepare* chose
kernel_make() {
    local dir=$1
    shift
    # By its real name: a link would change __FILE__ and the symvers' path
    # Without BTF, which would need pahole and which nothing here reads
    nice -n 5 make -C "$(realpath "$RNIC_KERNEL_HEADERS")" -j2 \
        CONFIG_DEBUG_INFO_BTF_MODULES= "$@" M="$dir" modules
}

# rnic_ko_build DIR: (in a step) The checkout stays clean: the build happens in
# a copy that keeps guest-driver/kernel and include/ where they are to each
# other, one for each kernel.
rnic_ko_build() {
    local dir=$1 work name
    work=$RNIC_CACHE/build/$(basename "$RNIC_KERNEL_DIR")
    mirror_sources "$RNIC_TOP/include" "$work/include"
    mirror_sources "$RNIC_TOP/guest-driver/kernel" "$work/guest-driver/kernel"
    mirror_sources "$RNIC_TOP/tests/vm/modules" "$work/tests/vm/modules"
    kernel_make "$work/guest-driver/kernel"
    kernel_make "$work/tests/vm/modules"
    # With debug information for decoding an oops, and without for the guest
    cp "$work/guest-driver/kernel/rnic.ko" "$dir/rnic.ko.debug"
    strip --strip-debug -o "$dir/rnic.ko" "$dir/rnic.ko.debug"
    for name in "$work"/tests/vm/modules/*.ko; do
        strip --strip-debug -o "$dir/$(basename "$name")" "$name"
    done
}

# rnic_ko_check [ARG]...: (in a step) compile it anew for the kernel that
# kernel_prepare* chose, with these arguments of make; any warning is a failure
rnic_ko_check() {
    local work
    work=$RNIC_CACHE/build/check-$(basename "$RNIC_KERNEL_DIR")
    rm -rf "$work"
    mirror_sources "$RNIC_TOP/include" "$work/include"
    mirror_sources "$RNIC_TOP/guest-driver/kernel" "$work/guest-driver/kernel"
    mirror_sources "$RNIC_TOP/tests/vm/modules" "$work/tests/vm/modules"
    {
        kernel_make "$work/guest-driver/kernel" KCFLAGS=-Werror "$@"
        kernel_make "$work/tests/vm/modules" KCFLAGS=-Werror
    } 2>&1 | tee "$work/log"
    # modpost only warns of what it finds
    ! grep 'WARNING: modpost' "$work/log"
}

# rnic_ko: rnic.ko for the kernel that kernel_prepare* chose, with the tests'
# own modules beside it; exports RNIC_KO
rnic_ko() {
    local key
    key=$({
        basename "$RNIC_KERNEL_DIR"
        hash_tree "$RNIC_TOP/include" "$RNIC_TOP/guest-driver/kernel" \
            "$RNIC_TOP/tests/vm/modules" "$RNIC_TOP/scripts/lib/driver.sh"
    } | hash_text)
    product "rnic-ko-$RNIC_KERNEL_RELEASE" "$key" \
        "building rnic.ko for $RNIC_KERNEL_RELEASE" rnic_ko_build
    RNIC_KO=$PRODUCT/rnic.ko
    export RNIC_KO
}

provider_make() {
    "$RNIC_TOP/guest-driver/provider/build.sh" --rootfs "$RNIC_GUEST_SDK" \
        --headers "$RNIC_RDMA_CORE_HEADERS" --out "$1"
    ls "$1"/librnic-rdmav*.so
}

# provider_build: the provider for the guest's suite; exports
# RNIC_PROVIDER_DIR, which holds librnic-rdmavNN.so
provider_build() {
    local key
    rdma_core_headers
    guest_sdk "$RNIC_GUEST_SUITE"
    key=$({
        basename "$RNIC_RDMA_CORE_HEADERS" "$RNIC_GUEST_SDK"
        hash_tree "$RNIC_TOP/include" "$RNIC_TOP/guest-driver/provider" \
            "$RNIC_TOP/scripts/lib/driver.sh"
    } | hash_text)
    product "provider-$RNIC_GUEST_SUITE" "$key" \
        "building the provider for $RNIC_GUEST_SUITE" provider_make
    RNIC_PROVIDER_DIR=$PRODUCT
    export RNIC_PROVIDER_DIR
}

program_make() {
    local out=$1
    shift
    gcc -std=gnu11 -O2 -g -Wall -Wextra -I"$RNIC_TOP/include" \
        -I"$RNIC_GUEST_SDK/usr/include" "$@" -o "$out" \
        -L"$RNIC_GUEST_SDK/usr/lib/x86_64-linux-gnu" \
        -Wl,--unresolved-symbols=ignore-in-shared-libs \
        -lrdmacm -libverbs -lpthread
}

programs_make() {
    local entry
    for entry in "$RNIC_TOP"/tests/vm/programs/*; do
        if [ -d "$entry" ]; then
            program_make "$1/$(basename "$entry")" "$entry"/*.c
        elif [[ $entry == *.c ]]; then
            program_make "$1/$(basename "$entry" .c)" "$entry"
        fi
    done
}

# guest_programs: each tests/vm/programs/NAME.c, and all sources in each folder
# tests/vm/programs/NAME, make a program NAME, which is in the guest's PATH;
# exports RNIC_GUEST_PROGRAMS, the folder of the results
guest_programs() {
    local key
    guest_sdk "$RNIC_GUEST_SUITE"
    key=$({
        basename "$RNIC_GUEST_SDK"
        hash_tree "$RNIC_TOP/include" "$RNIC_TOP/tests/vm/programs" \
            "$RNIC_TOP/scripts/lib/driver.sh"
    } | hash_text)
    product "guest-programs-$RNIC_GUEST_SUITE" "$key" \
        "building the tests' guest programs" programs_make
    RNIC_GUEST_PROGRAMS=$PRODUCT
    export RNIC_GUEST_PROGRAMS
}
