#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compiles the rdma-core provider for a target system:
#
#   build.sh --rootfs DIR --headers DIR --out DIR
#
# rootfs   the target's files: usr/include/infiniband (libibverbs-dev) and the
#          library libibverbs.so.1
# headers  rdma-core's private headers, of the library's private ABI: config.h,
#          infiniband/{driver,kern-abi,cmd_ioctl}.h, ccan/, util/, kernel-abi/,
#          rdma/, and a file "pabi" with the number of the private ABI
# out      gets librnic-rdmavNN.so, for the folder libibverbs beside the
#          library, and rnic.driver, for /etc/libibverbs.d
set -euo pipefail

usage()
{
    echo "usage: ${0##*/} --rootfs DIR --headers DIR --out DIR" >&2
    exit 2
}

if [ "${1:-}" = --help ]; then
    sed -n '4,/^set/ { /^#/ s/^# \{0,1\}//p }' "$0"
    exit 0
fi

rootfs='' headers='' out=''
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --rootfs) rootfs=$2 ;;
    --headers) headers=$2 ;;
    --out) out=$2 ;;
    *) usage ;;
    esac
    shift 2
done
if [ -z "$rootfs" ] || [ -z "$headers" ] || [ -z "$out" ]; then
    usage
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
library=$(find "$rootfs/usr/lib" -name libibverbs.so.1 -print -quit)
if [ -z "$library" ]; then
    echo "provider: no libibverbs.so.1 below $rootfs" >&2
    exit 1
fi
# The library says which private ABI it has; its version does not
pabi=$(nm -D "$library" |
    sed -n 's/.* verbs_register_driver_\([0-9]*\).*/\1/p')
if [ -z "$pabi" ] || [ "$pabi" != "$(cat "$headers/pabi")" ]; then
    echo "provider: $library has private ABI '$pabi', the headers in" \
        "$headers are of $(cat "$headers/pabi")" >&2
    exit 1
fi

mkdir -p "$out"
# The target's library may want a newer libc than this machine's
${CC:-gcc} -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -fvisibility=hidden \
    -shared -pthread -I"$here/../../include" \
    -isystem "$headers" -isystem "$rootfs/usr/include" \
    "$here"/*.c "$library" \
    -Wl,--version-script="$here/provider.map" -Wl,--no-undefined \
    -Wl,--unresolved-symbols=ignore-in-shared-libs -Wl,--as-needed \
    -o "$out/librnic-rdmav$pabi.so"
cp "$here/rnic.driver" "$out/"
