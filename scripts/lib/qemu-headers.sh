# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# A QEMU tree whose headers are those of the installed QEMU: its source,
# configured as the distribution did where that can be seen in a header, and
# the generated headers. No QEMU is built.

[ -n "${RNIC_QEMU_HEADERS_SH:-}" ] && return
RNIC_QEMU_HEADERS_SH=1

# shellcheck source=scripts/lib/qemu-source.sh
. "$(dirname "${BASH_SOURCE[0]}")/qemu-source.sh"

# qemu_configure SOURCE BUILD PKGVERSION: the options that move something a PCI
# device can see are plugins (CPUState), linux-aio and io_uring (AioContext),
# modules (initialisation). PKGVERSION is what -version prints in parentheses;
# it goes into the stamp.
qemu_configure() {
    local source=$1 build=$2 pkgversion=$3 python
    if [ "$(cut -d. -f1 "$source/VERSION")" -ge 8 ]; then
        # Another python may come first in PATH, without the meson modules
        python=--python=/usr/bin/python3
    else
        # Refuses --python beside --meson
        python=--meson=/usr/bin/meson
    fi
    mkdir -p "$build"
    cd "$build"
    "$source/configure" "$python" \
        --target-list=x86_64-softmmu --without-default-features \
        --enable-tcg --enable-kvm --enable-plugins \
        --enable-modules --enable-module-upgrades \
        --enable-linux-aio --enable-linux-io-uring --enable-fdt=system \
        --disable-docs --disable-install-blobs \
        --with-git-submodules=ignore --with-pkgversion="$pkgversion" \
        --prefix=/usr --sysconfdir=/etc --localstatedir=/var \
        --libdir="/usr/lib/$(gcc -print-multiarch)" \
        --libexecdir=/usr/lib/qemu \
        --firmwarepath=/usr/share/qemu:/usr/share/seabios:/usr/lib/ipxe/qemu
}

# qemu_headers_build VERSION PKGVERSION DIR: (in a step) DIR/source and
# DIR/build with all generated headers, and in DIR/modules the qtest
# accelerator, which the distribution's binary knows but its package lacks
qemu_headers_build() {
    local version=$1 pkgversion=$2 dir=$3 headers
    apt_own_suites
    qemu_source "$dir/source" "$version"
    (qemu_configure "$dir/source" "$dir/build" "$pkgversion")
    headers=$(ninja -C "$dir/build" -t targets all |
        sed -n 's/\.h: CUSTOM_COMMAND.*/.h/p' | grep -vE '^(qga|tests)/')
    # shellcheck disable=SC2086
    nice -n 5 ninja -C "$dir/build" $headers accel-qtest-x86_64.so
    mkdir "$dir/modules"
    cp "$dir/build/accel-qtest-x86_64.so" "$dir/modules/"
}

# qemu_headers: the tree for the installed qemu-system-x86, in QEMU_HEADERS
qemu_headers() {
    local version pkgversion key
    version=$(dpkg-query -W -f '${source:Version}' qemu-system-x86)
    pkgversion="Debian $(dpkg-query -W -f '${Version}' qemu-system-x86)"
    # Structures of these two libraries are embedded in QEMU's
    key=$({
        echo "$version $pkgversion"
        dpkg-query -W liburing-dev libaio-dev
        declare -f qemu_source qemu_configure qemu_headers_build
    } | hash_text)
    product qemu-headers "$key" "preparing the headers of QEMU $version" \
        qemu_headers_build "$version" "$pkgversion"
    # shellcheck disable=SC2034  # read by the caller
    QEMU_HEADERS=$PRODUCT
}
