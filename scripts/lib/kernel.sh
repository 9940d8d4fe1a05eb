# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Guest kernels: the distribution's own, only unpacked into the cache, or a
# tree that the user built.

[ -n "${RNIC_KERNEL_SH:-}" ] && return
RNIC_KERNEL_SH=1

# shellcheck source=scripts/lib/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

RNIC_LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

# What a guest may need, whether a module or built in. A name that a kernel has
# not is left out: the cloud kernels lack 9p, iser, isert and rxe.
KERNEL_MODULES="virtio_pci virtio_console virtio_net virtio_blk virtiofs
9p 9pnet_virtio virtio_iommu
ib_core ib_uverbs ib_umad ib_cm iw_cm rdma_cm rdma_ucm rdma_rxe
nvme-rdma nvmet-rdma nvme-tcp null_blk rpcrdma nfs nfsv4 nfsd ib_iser ib_isert
target_core_file target_core_iblock
crc32_generic crc32c_generic crc32c-intel libcrc32c configfs dummy veth
nf_tables nf_conntrack nft_ct nft_reject nft_reject_inet nft_reject_ipv4
nft_reject_ipv6 nft_log nft_limit nf_log_syslog nft_chain_nat nft_redir
nft_queue nfnetlink_queue sch_netem sch_ingress cls_matchall act_mirred ifb"

# Without these no guest of ours runs.
KERNEL_REQUIRED="virtio_pci virtio_console ib_core ib_uverbs iw_cm rdma_cm
rdma_ucm"

# kernel_metapackage NAME: the part after linux-image- and linux-headers- of
# the stable metapackage; its dependencies name the current ABI
kernel_metapackage() {
    case $1 in
    6.12) echo 6.12-cloud-amd64 ;;
    6.12-full) echo 6.12-amd64 ;;
    6.1) echo cloud-amd64 ;;
    6.1-full) echo amd64 ;;
    *) die "unknown kernel '$1': 6.12, 6.1, 6.12-full or 6.1-full" ;;
    esac
}

package_dependencies() {
    apt-cache depends --important "$1" 2>/dev/null |
        sed -n 's/^ *Depends: *//p' | tr -d '<>'
}

# kernel_fetch META DIR: (in a step) image and headers by dpkg -x; called in a
# condition, so it watches each status itself
kernel_fetch() {
    local meta=$1 dir=$2 image headers debs
    image=$(package_dependencies "linux-image-$meta" | head -n 1)
    headers=$(package_dependencies "linux-headers-$meta" | head -n 1)
    if [ -z "$image" ] || [ -z "$headers" ]; then
        echo "apt knows no linux-image-$meta and linux-headers-$meta"
        return 1
    fi
    debs=$(package_dependencies "$headers" |
        grep -E '^linux-(headers|kbuild)-')
    mkdir "$dir/debs"
    # shellcheck disable=SC2086  # a list of names
    (cd "$dir/debs" && apt-get -q -o APT::Sandbox::User=root \
        -o Acquire::Retries=3 download "$image" "$headers" $debs) || return
    for deb in "$dir"/debs/*.deb; do
        dpkg-deb -x "$deb" "$dir/tree" || return
    done
    rm -rf "$dir/debs"
    echo "${image#linux-image-}" >"$dir/release"
}

# modules_closure ROOT RELEASE OUT: copy the modules of KERNEL_MODULES, with
# all they depend on and uncompressed, from ROOT/lib/modules to OUT
modules_closure() {
    local root=$1 release=$2 out=$3/lib/modules/$2 from name line file
    from=$root/lib/modules/$release
    depmod -b "$root" "$release"
    mkdir -p "$out"
    for name in $KERNEL_MODULES; do
        name=${name//[-_]/[-_]}
        if line=$(grep -E "(^|/)$name\.ko(\.[a-z]+)?:" "$from/modules.dep")
        then
            echo "$line" | tr -d : | tr ' ' '\n'
        elif ! grep -qE "/$name\.ko$" "$from/modules.builtin"; then
            echo "not in this kernel: ${name//\[-_\]/_}" >&2
        fi
    done | sort -u | while read -r file; do
        mkdir -p "$out/$(dirname "$file")"
        case $file in
        *.xz) xz -dc "$from/$file" >"$out/${file%.xz}" ;;
        *.zst) zstd -qdc "$from/$file" >"$out/${file%.zst}" ;;
        *.gz) gzip -dc "$from/$file" >"$out/${file%.gz}" ;;
        *) cp "$from/$file" "$out/$file" ;;
        esac
    done
    cp "$from"/modules.builtin* "$from/modules.order" "$out/"
    for name in $KERNEL_REQUIRED; do
        grep -qE "/${name//[-_]/[-_]}\.ko" "$out/modules.builtin" ||
            find "$out" -name "${name//[-_]/[-_]}.ko" | grep -q . || {
            echo "this kernel has no $name, neither built in nor a module"
            return 1
        }
    done
    depmod -b "$3" "$release"
}

# kernel_build META DIR: (in a step)
kernel_build() {
    local dir=$2 tree=$2/tree release headers
    # The machine's package lists may be missing or older than the archive
    kernel_fetch "$1" "$dir" || {
        rm -rf "$dir"/{tree,debs}
        host_apt_update
        kernel_fetch "$1" "$dir"
    }
    release=$(cat "$dir/release")
    python3 "$RNIC_LIB/extract-vmlinux.py" \
        "$tree/boot/vmlinuz-$release" "$dir/vmlinux"
    # What a running kernel can start: kexec
    cp "$tree/boot/vmlinuz-$release" "$dir/vmlinuz"
    cp "$tree/boot/config-$release" "$dir/config"
    modules_closure "$tree" "$release" "$dir/modules"
    # usr/src beside usr/lib, as the headers' relative links expect it
    mkdir -p "$dir/usr/lib"
    mv "$tree/usr/src" "$dir/usr/src"
    mv "$tree"/usr/lib/linux-kbuild-* "$dir/usr/lib/"
    rm -rf "$tree"
    headers=usr/src/linux-headers-$release
    # The one absolute path in the headers: where the common part lies
    sed -i -E "s#(=|include )/usr/src/#\1$PRODUCT_FINAL/usr/src/#" \
        "$dir/$headers/Makefile"
    ln -s "$headers" "$dir/headers"
}

# kernel_build_tree TREE DIR: (in a step) from a tree that the user built
kernel_build_tree() {
    local tree=$1 dir=$2 release
    release=$(cat "$tree/include/config/kernel.release")
    echo "$release" >"$dir/release"
    cp "$tree/.config" "$dir/config"
    # Without the PVH note QEMU cannot start the ELF file
    if [ -f "$tree/vmlinux" ] && grep -q '^CONFIG_PVH=y' "$tree/.config"; then
        objcopy --strip-debug "$tree/vmlinux" "$dir/vmlinux"
    else
        cp "$tree/arch/x86/boot/bzImage" "$dir/vmlinux"
    fi
    mkdir -p "$dir/all/lib/modules/$release"
    if grep -q '^CONFIG_MODULES=y' "$tree/.config"; then
        make -C "$tree" INSTALL_MOD_PATH="$dir/all" INSTALL_MOD_STRIP=1 \
            modules_install
    else
        echo "this kernel has no CONFIG_MODULES: rnic.ko cannot be loaded"
        return 1
    fi
    modules_closure "$dir/all" "$release" "$dir/modules"
    rm -rf "$dir/all"
    ln -s "$tree" "$dir/headers"
}

kernel_export() {
    RNIC_KERNEL_DIR=$1
    RNIC_KERNEL_RELEASE=$(cat "$1/release")
    RNIC_VMLINUX=$1/vmlinux
    RNIC_KERNEL_HEADERS=$1/headers
    RNIC_KERNEL_MODULES=$1/modules
    export RNIC_KERNEL_DIR RNIC_KERNEL_RELEASE RNIC_VMLINUX \
        RNIC_KERNEL_HEADERS RNIC_KERNEL_MODULES
}

# kernel_prepare NAME: one of 6.12, 6.1 (the cloud flavour: small), 6.12-full,
# 6.1-full. Exports RNIC_KERNEL_DIR, RNIC_KERNEL_RELEASE, RNIC_VMLINUX,
# RNIC_KERNEL_HEADERS (for make -C) and RNIC_KERNEL_MODULES (holds
# lib/modules/RELEASE).
kernel_prepare() {
    local meta key
    meta=$(kernel_metapackage "$1")
    need_packages gcc-12 make kmod xz-utils zstd lz4 binutils
    key=$(hash_tree "$RNIC_LIB/kernel.sh" "$RNIC_LIB/extract-vmlinux.py")
    product "kernel-$1" "$key" "fetching the guest kernel $1" \
        kernel_build "$meta"
    kernel_export "$PRODUCT"
}

# kernel_prepare_tree TREE: the same from a built kernel tree (O= folder)
kernel_prepare_tree() {
    local tree key
    tree=$(cd "$1" 2>/dev/null && pwd -P) || die "no folder $1"
    [ -f "$tree/include/config/kernel.release" ] ||
        die "$tree is no built kernel tree (no include/config/kernel.release)"
    [ -f "$tree/vmlinux" ] || [ -f "$tree/arch/x86/boot/bzImage" ] ||
        die "$tree holds neither vmlinux nor arch/x86/boot/bzImage"
    need_packages gcc make kmod xz-utils zstd lz4 binutils
    key=$({
        echo "$tree"
        cat "$tree/include/config/kernel.release" "$tree/.config" \
            "$RNIC_LIB/kernel.sh"
        stat -c '%n %s %Y' "$tree"/vmlinux "$tree"/arch/x86/boot/bzImage \
            "$tree"/Module.symvers "$tree"/modules.order 2>/dev/null
    } | hash_text)
    product kernel-tree "$key" "taking the kernel from $tree" \
        kernel_build_tree "$tree"
    kernel_export "$PRODUCT"
}
