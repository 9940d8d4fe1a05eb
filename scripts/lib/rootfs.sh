# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The guest's root file system: packages of a Debian suite, only unpacked (no
# maintainer script runs, no root is needed), with an init of our own.

[ -n "${RNIC_ROOTFS_SH:-}" ] && return
RNIC_ROOTFS_SH=1

# shellcheck source=scripts/lib/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

RNIC_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

ROOTFS_PACKAGES="busybox kmod iproute2 iputils-ping nftables tcpdump
ibverbs-providers ibverbs-utils rdmacm-utils perftest qperf iperf3
python3-minimal python3-pyverbs"

# Dependencies that only a configured system uses
ROOTFS_WITHOUT="adduser debconf dpkg init-system-helpers libsystemd-shared
login.defs mount openssl-provider-legacy passwd pci.ids rdma-core systemd tar
tzdata udev"

# rootfs_pack DIR OUT: pack a folder as a cpio archive that the kernel
# unpacks fast; all files belong to root
rootfs_pack() {
    (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null --quiet -o -H newc -R 0:0) | lz4 -q -l -9 -c >"$2"
}

# rootfs_trim ROOT: remove what a test guest does not read
rootfs_trim() {
    local root=$1 lib=$1/usr/lib/x86_64-linux-gnu name
    find "$root/usr/share" -mindepth 1 -maxdepth 1 ! -name perftest \
        -exec rm -rf {} +
    rm -rf "$root"/var/{cache,lib,backups} "$root"/usr/{games,src,include}
    rm -rf "$root/usr/lib"/{systemd,udev,tmpfiles.d,sysusers.d,modules-load.d} \
        "${root:?}"/{boot,media,srv,opt} "$lib"/gconv "$lib"/perl* \
        "$lib"/security "$lib"/libmemusage.so "$lib"/libpcprofile.so
    find "$root"/usr/lib/python3* -depth \( -name __pycache__ \
        -o -name test -o -name idlelib -o -name lib2to3 -o -name ensurepip \
        -o -name turtledemo -o -name tkinter -o -name pydoc_data \
        -o -name distutils \) -exec rm -rf {} +
    # Providers of other hardware; siw is kept for comparisons
    for name in "$root"/etc/libibverbs.d/*.driver; do
        case $(basename "$name" .driver) in
        siw | rxe) ;;
        *) rm "$name" ;;
        esac
    done
    find "$lib/libibverbs" -name 'lib*-rdmav*.so' ! -name 'libsiw-*' \
        ! -name 'librxe-*' -delete
}

# rootfs_build SUITE DIR: (in a step)
rootfs_build() {
    local suite=$1 dir=$2 root=$2/root lib tests busybox applet path
    mkdir "$root"
    apt_suite_update "$suite"
    # shellcheck disable=SC2086  # a list of names
    EXTRACT_WITHOUT=$ROOTFS_WITHOUT \
        apt_suite_extract "$suite" "$root" $ROOTFS_PACKAGES
    mv "$root/packages" "$dir/packages"

    # rdma-core's own tests, which python3-pyverbs ships as documentation
    tests=$root/usr/share/doc/rdma-core/tests
    mkdir -p "$root/root"
    cp -r "$tests" "$root/root/tests"
    find "$root/root/tests" -name '*.gz' -exec gunzip {} +
    rootfs_trim "$root"

    mkdir -p "$root"/{dev,proc,sys,tmp,run,mnt,opt/rnic/bin,usr/lib/rnic} \
        "$root"/var/{tmp,run,lib,log} "$root/etc"
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    printf '%s\n' '127.0.0.1 localhost' '::1 localhost' >"$root/etc/hosts"
    printf '%s\n' 'passwd: files' 'group: files' 'hosts: files' \
        >"$root/etc/nsswitch.conf"
    cp /etc/protocols /etc/services "$root/etc/" 2>/dev/null || true
    printf '%s\n' "export PS1='\\h:\\w# '" >"$root/etc/profile"

    # What no package brought is busybox's. It is run by the guest's own
    # loader, since this machine's libc may be older.
    busybox=$root/usr/bin/busybox
    lib=$root/usr/lib/x86_64-linux-gnu
    for applet in $("$lib/ld-linux-x86-64.so.2" --library-path "$lib" \
        "$busybox" --list); do
        for path in bin sbin; do
            [ -e "$root/usr/$path/$applet" ] && continue 2
            [ -L "$root/usr/$path/$applet" ] && continue 2
        done
        ln -s busybox "$root/usr/bin/$applet"
    done

    gcc -std=gnu11 -O2 -Wall -Wextra -static -s \
        -o "$root/usr/lib/rnic/agent" "$RNIC_TOP/tests/vm/guest/agent.c"
    install -m 755 "$RNIC_TOP/tests/vm/guest/init" "$root/init"
    rootfs_pack "$root" "$dir/root.cpio.lz4"
    du -sm "$root"
}

# rootfs_prepare: exports RNIC_ROOTFS (a folder with root/, the unpacked
# system, packages and root.cpio.lz4) and RNIC_GUEST_SUITE. The suite is
# trixie, for its rdma-core 56; bookworm if the mirror has no trixie.
rootfs_prepare() {
    local key suite dir
    need_packages cpio lz4 gcc libc6-dev python3 debian-archive-keyring
    key=$({
        cat "$RNIC_TOP"/scripts/lib/{rootfs,packages}.sh \
            "$RNIC_TOP"/tests/vm/guest/{agent.c,init}
    } | hash_text)
    for suite in trixie bookworm; do
        dir=$RNIC_CACHE/rootfs-$suite-$key
        [ -n "${RNIC_GUEST_SUITE:-}" ] && [ "$suite" != "$RNIC_GUEST_SUITE" ] &&
            continue
        [ -d "$dir" ] && break
        attempt "looking for the guest's suite, $suite" \
            apt_suite_update "$suite"
        [ "$ATTEMPT_RC" = 0 ] && break
        say "this mirror has no $suite, see $ATTEMPT_LOG"
        dir=
    done
    [ -n "$dir" ] || die "neither trixie nor bookworm to be had for the guest"
    RNIC_GUEST_SUITE=$suite
    product "rootfs-$suite" "$key" \
        "making the guest's root file system ($suite)" rootfs_build "$suite"
    RNIC_ROOTFS=$PRODUCT
    export RNIC_ROOTFS RNIC_GUEST_SUITE
}
