# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What the provider is compiled against: the public headers and libraries of
# the guest's suite, and rdma-core's private headers, which no package ships.

[ -n "${RNIC_RDMA_CORE_SH:-}" ] && return
RNIC_RDMA_CORE_SH=1

# shellcheck source=scripts/lib/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

RDMA_CORE_SH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)/rdma-core.sh

# rdma_core_tarball DIR: (in a step) the source of rdma-core into DIR/source.
# Its private headers of version 56 also serve version 44 (both have private
# ABI 34). Only the tarball is taken: an archive may lack the .dsc.
rdma_core_tarball() {
    local dir=$1 tmp
    tmp=$dir/tarball
    mkdir "$tmp" "$dir/source"
    apt_suite_update trixie
    apt_suite trixie
    (cd "$tmp" && apt-get "${APT[@]}" source --download-only --tar-only \
        rdma-core)
    tar -xf "$tmp"/rdma-core_*.orig.tar.* -C "$dir/source" --strip-components=1
    rm -rf "$tmp"
}

# rdma_core_build SOURCE DIR: (in a step) SOURCE may be empty
rdma_core_build() {
    local src=$1 dir=$2
    if [ -z "$src" ]; then
        rdma_core_tarball "$dir"
        src=$dir/source
    fi
    mkdir -p "$dir"/{infiniband,kernel-abi,rdma}
    # Only the private ones: the public ones must be the target's
    cp "$src"/libibverbs/{driver.h,kern-abi.h,cmd_ioctl.h} "$dir/infiniband/"
    cp -r "$src/ccan" "$src/util" "$dir/"
    cp "$src"/kernel-headers/rdma/*.h "$dir/rdma/"
    python3 "$src/buildlib/make_abi_structs.py" \
        "$src/kernel-headers/rdma/ib_user_verbs.h" \
        "$dir/kernel-abi/ib_user_verbs.h"
    sed -n -E 's/^set\(IBVERBS_PABI_VERSION "([0-9]+)"\)$/\1/p' \
        "$src/CMakeLists.txt" >"$dir/pabi"
    [ -s "$dir/pabi" ]
    # What its own build finds out with gcc on a 64-bit GNU system
    cat >"$dir/config.h" <<END
#pragma once
#define HAVE_STATEMENT_EXPR 1
#define HAVE_BUILTIN_TYPES_COMPATIBLE_P 1
#define HAVE_TYPEOF 1
#define HAVE_ISBLANK 1
#define HAVE_FUNC_ATTRIBUTE_ALWAYS_INLINE 1
#define HAVE_FULL_SYMBOL_VERSIONS 1
#define SIZEOF_LONG 8
#define VERBS_IOCTL_ONLY 0
#define VERBS_WRITE_ONLY 0
#define IBVERBS_PABI_VERSION $(cat "$dir/pabi")
END
    find "$dir/ccan" "$dir/util" -type f ! -name '*.h' -delete
    rm -rf "$dir/source"
}

# rdma_core_headers: exports RNIC_RDMA_CORE_HEADERS, a folder with
# infiniband/{driver,kern-abi,cmd_ioctl}.h, ccan/, util/, kernel-abi/, rdma/
# (the kernel's user interface), config.h and pabi (the private ABI's number).
# RNIC_RDMA_CORE_SOURCE=DIR takes them from an unpacked rdma-core source.
rdma_core_headers() {
    local key src=${RNIC_RDMA_CORE_SOURCE:-}
    if [ -n "$src" ] && [ ! -f "$src/libibverbs/driver.h" ]; then
        die "RNIC_RDMA_CORE_SOURCE=$src is no rdma-core source tree"
    fi
    key=$({
        cat "$RDMA_CORE_SH"
        [ -z "$src" ] || hash_tree "$src/libibverbs" "$src/util" "$src/ccan"
    } | hash_text)
    product rdma-core-headers "$key" "fetching rdma-core's private headers" \
        rdma_core_build "$src"
    RNIC_RDMA_CORE_HEADERS=$PRODUCT
    export RNIC_RDMA_CORE_HEADERS
}

guest_sdk_build() {
    apt_suite_update "$1"
    apt_suite_extract "$1" "$2" libibverbs-dev librdmacm-dev
    rm -rf "${2:?}"/{usr/share,etc,var}
}

# guest_sdk SUITE: exports RNIC_GUEST_SDK, a folder whose usr/include and
# usr/lib/x86_64-linux-gnu are those of libibverbs and librdmacm in that suite.
# Programs are linked with --unresolved-symbols=ignore-in-shared-libs, since a
# newer suite's libraries want a newer libc than this machine's.
guest_sdk() {
    product "guest-sdk-$1" "$(hash_text <"$RDMA_CORE_SH")" \
        "fetching the headers of libibverbs ($1)" guest_sdk_build "$1"
    RNIC_GUEST_SDK=$PRODUCT
    export RNIC_GUEST_SDK
}
