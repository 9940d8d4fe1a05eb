# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# QEMU's source as the distribution builds it: the upstream tarball with the
# distribution's whole patch series applied. The series matters: it carries the
# stable updates, and those change the layout of structures that the device
# shares with QEMU.

[ -n "${RNIC_QEMU_SOURCE_SH:-}" ] && return
RNIC_QEMU_SOURCE_SH=1

# shellcheck source=scripts/lib/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# apt_own_suites: as apt_suite, for the source packages of all Debian suites
# that this machine has configured; an installed package may have come from
# the updates or the security archive
apt_own_suites() {
    # shellcheck disable=SC2016  # apt's own variables
    local format='$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)'
    apt_suite own
    apt-get indextargets --format "$format" 'Created-By: Packages' |
        awk -v keyring="$RNIC_KEYRING" '$3 == "main" && $4 == "Debian" {
            print "deb-src [signed-by=" keyring "] " $1, $2, $3
        }' | sort -u >"$RNIC_CACHE/apt/own/sources.list"
}

# qemu_source TREE VERSION: (in a step, after apt_suite or apt_own_suites) put
# QEMU's source package VERSION, or the newest one if it is empty, with its
# series applied into TREE
qemu_source() {
    local tree=$1 version=$2 fetch=$1.fetch fw
    rm -rf "$fetch" "$tree"
    mkdir -p "$fetch"
    apt-get "${APT[@]}" update
    (cd "$fetch" && apt-get "${APT[@]}" source --download-only --only-source \
        "qemu${version:+=$version}")
    # apt has checked the archive's signature and the hash of each file
    dpkg-source --no-check --no-copy -x "$fetch"/qemu_*.dsc "$tree"
    # The repacked tarball lacks firmware, but meson wants to see the files
    sed -n "s/^ *'\(edk2-.*\.fd\)',*$/\1/p" "$tree/pc-bios/meson.build" |
        while read -r fw; do
            [ -e "$tree/pc-bios/$fw.bz2" ] || touch "$tree/pc-bios/$fw.bz2"
        done
    rm -rf "$fetch"
}
