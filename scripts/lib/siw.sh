# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# siw, the kernel's software iWARP, for the guest's kernel: Debian builds none.
# Its source comes out of the distribution's kernel source package.

[ -n "${RNIC_SIW_SH:-}" ] && return
RNIC_SIW_SH=1

# shellcheck source=scripts/lib/driver.sh
. "$(dirname "${BASH_SOURCE[0]}")/driver.sh"

SIW_SH=$RNIC_TOP/scripts/lib/siw.sh

# siw_fetch DIR: (in a step) the folder siw of the kernel source package that
# fits the kernel of kernel_prepare into DIR, and the package's version into
# DIR/version. The package is large; only that folder is kept.
siw_fetch() {
    local dir=$1 upstream package version
    upstream=${RNIC_KERNEL_RELEASE%%[+-]*}
    package=linux-source-${upstream%.*}
    # shellcheck disable=SC2317  # called below
    siw_download() {
        version=$(apt-cache madison "$package" | awk -F ' *[|] *' \
            -v upstream="$upstream" '$2 ~ "^" upstream "[-~+]" { print $2; exit }')
        if [ -z "$version" ]; then
            echo "the archive has no $package of version $upstream"
            return 1
        fi
        (cd "$dir" && apt-get -q -o APT::Sandbox::User=root \
            -o Acquire::Retries=3 download "$package=$version")
    }
    # The machine's package lists may be missing or older than the archive
    siw_download || { host_apt_update && siw_download; } || return
    dpkg-deb --fsys-tarfile "$dir/$package"_*.deb |
        tar -xO --wildcards "./usr/src/$package.tar.*" |
        tar -xJ -C "$dir" --strip-components=4 --wildcards \
            '*/drivers/infiniband/sw/siw' || return
    rm "$dir/$package"_*.deb
    echo "$version" >"$dir/version"
}

# siw_parameters TREE: make the constants of a copy of siw module parameters,
# which may be changed while it is loaded: they are read as each connection is
# made. Fails if the source has no such constants.
siw_parameters() {
    local main=$1/siw_main.c cm=$1/siw_cm.c name kind
    for name in try_gso:bool mpa_crc_required:bool mpa_crc_strict:bool \
        peer_to_peer:bool mpa_version:byte; do
        kind=${name#*:} name=${name%:*}
        grep -qE "^(const bool|u_char) $name\b" "$main"
        sed -i -E "s/^const (bool $name\b)/\1/
            /^(bool|u_char) $name\b/a module_param($name, $kind, 0644);" "$main"
        # Nobody else may believe that they are constant
        sed -i -E "s/^extern const (bool $name;)/extern \1/" "$1"/*.h
    done
    # What is offered in peer-to-peer mode, as it is on the wire: 0x80 Write,
    # 0x40 Read, in the first of two octets
    grep -qE '^static __be16 rtr_type\b' "$cm"
    sed -i -E '/^static __be16 rtr_type\b/a\
module_param_named(rtr_type, rtr_type, ushort, 0644);' "$cm"
    grep -q 'linux/module.h' "$cm" ||
        sed -i '0,/^#include/s//#include <linux\/module.h>\n#include/' "$cm"
}

# siw_build SOURCE DIR: (in a step) DIR/siw.ko as the source has it, and
# DIR/siw-parameters.ko, the same with module parameters
siw_build() {
    local source=$1 dir=$2 work=$RNIC_CACHE/build/siw name
    rm -rf "$work"
    for name in siw siw-parameters; do
        mkdir -p "$work/$name"
        cp "$source"/siw/*.[ch] "$work/$name/"
        [ "$name" = siw ] || siw_parameters "$work/$name"
        printf '%s\n' 'obj-m := siw.o' \
            "siw-y := $(cd "$work/$name" && echo siw_*.c | sed 's/\.c\>/.o/g')" \
            >"$work/$name/Kbuild"
        kernel_make "$work/$name"
        strip --strip-debug -o "$dir/$name.ko" "$work/$name/siw.ko"
    done
    cp "$source/version" "$dir/version"
    rm -rf "$work"
}

siw_source_build() {
    [ -d "$1" ] && return
    rm -rf "$1.new"
    mkdir "$1.new"
    attempt "fetching the source of siw $RNIC_KERNEL_RELEASE" \
        siw_fetch "$1.new"
    [ "$ATTEMPT_RC" = 0 ] && mv "$1.new" "$1"
    rm -rf "$1.new"
}

# siw_prepare: after kernel_prepare. Exports RNIC_SIW_DIR, a folder with the
# two modules and the version of their source; empty, and the reason said, if
# there is no source to be had.
siw_prepare() {
    local key source
    key=$({
        echo "$RNIC_KERNEL_RELEASE"
        declare -f siw_fetch
    } | hash_text)
    source=$RNIC_CACHE/siw-source-$key
    locked siw-source siw_source_build "$source"
    RNIC_SIW_DIR=''
    export RNIC_SIW_DIR
    if [ ! -d "$source" ]; then
        say "no source of siw: $(tail -n 1 "$ATTEMPT_LOG")"
        return
    fi
    touch "$source"
    key=$({
        echo "$source $(basename "$RNIC_KERNEL_DIR")"
        cat "$SIW_SH"
    } | hash_text)
    product siw "$key" "building siw for $RNIC_KERNEL_RELEASE" \
        siw_build "$source"
    RNIC_SIW_DIR=$PRODUCT
}
