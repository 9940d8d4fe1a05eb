# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Prepares a QEMU tree whose headers are those of an installed QEMU: source
# with the distribution's patches, configured as the distribution did where
# that can be seen in a header, generated headers. No QEMU is built.

# Raise it when a change below must reach trees that are already in a cache
QEMU_HEADERS_RECIPE=1

# The configure options that move something a PCI device can see: plugins
# (CPUState), linux-aio and io_uring (AioContext), modules (initialisation and
# the stamp), together with the version that -version prints, which goes into
# the stamp.
qemu_configure()
{
    local source=$1 build=$2 pkgversion=$3 major
    local python=()

    major=$(cut -d. -f1 "$source/VERSION")
    if [ "$major" -ge 8 ]; then
        # Another python may come first in PATH, without the meson modules
        python=(--python=/usr/bin/python3)
    else
        # Refuses --python beside --meson
        python=(--meson=/usr/bin/meson)
    fi
    mkdir -p "$build"
    (cd "$build" && "$source/configure" "${python[@]}" \
        --target-list=x86_64-softmmu --without-default-features \
        --enable-tcg --enable-kvm --enable-plugins \
        --enable-modules --enable-module-upgrades \
        --enable-linux-aio --enable-linux-io-uring --enable-fdt=system \
        --disable-docs --disable-install-blobs \
        --with-git-submodules=ignore --with-pkgversion="$pkgversion" \
        --prefix=/usr --sysconfdir=/etc --localstatedir=/var \
        --libdir="/usr/lib/$(gcc -print-multiarch)" \
        --libexecdir=/usr/lib/qemu \
        --firmwarepath=/usr/share/qemu:/usr/share/seabios:/usr/lib/ipxe/qemu)
}

# qemu_headers SOURCE-VERSION PKGVERSION FOLDER SUITES: FOLDER/source and
# FOLDER/build with all generated headers, and the accel-qtest module (the
# distribution's binary knows it, the package lacks it) in FOLDER/modules.
# Does nothing when FOLDER already has just that.
qemu_headers()
{
    local version=$1 pkgversion=$2 folder=$3 suites=$4 want headers
    local source=$folder/source build=$folder/build log=$folder/log

    # The libraries' headers are embedded in QEMU's own structures
    want="recipe $QEMU_HEADERS_RECIPE, QEMU $version as $pkgversion,"
    want+=" $(dpkg-query -W -f '${Package} ${Version} ' liburing-dev libaio-dev)"
    [ "$(cat "$folder/prepared" 2>/dev/null)" != "$want" ] || return 0

    mkdir -p "$folder"
    rm -rf "$folder/prepared" "$build" "$folder/modules"
    qemu_source "$version" "$source" "$suites" || return
    if ! qemu_configure "$source" "$build" "$pkgversion" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "qemu: configure failed, see $log" >&2
        return 1
    fi
    headers=$(ninja -C "$build" -t targets all |
        sed -n 's/\.h: CUSTOM_COMMAND.*/.h/p' | grep -vE '^(qga|tests)/')
    # shellcheck disable=SC2086
    if ! ninja -C "$build" $headers accel-qtest-x86_64.so >>"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "qemu: generating headers failed, see $log" >&2
        return 1
    fi
    mkdir -p "$folder/modules"
    cp "$build/accel-qtest-x86_64.so" "$folder/modules/"
    echo "$want" >"$folder/prepared"
}
