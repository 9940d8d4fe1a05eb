# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Fetches and unpacks QEMU's source as the distribution builds it: the
# upstream tarball with the distribution's whole patch series applied. The
# series matters: it carries the stable updates, and those change the layout
# of structures that the device shares with QEMU.

# The Debian archives that this machine's own apt uses, "URI suite" a line
qemu_suites_here()
{
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' \
            'Created-By: Packages' 2>/dev/null |
        awk '$3 == "main" && $4 == "Debian" { print $1, $2 }' | sort -u
}

# qemu_suite_named SUITE: the same line for another suite of the same mirror
qemu_suite_named()
{
    apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(LABEL)' \
            'Created-By: Packages' 2>/dev/null |
        awk -v suite="$1" \
            '$2 == "main" && $3 == "Debian" { print $1, suite; exit }'
}

# qemu_source VERSION TREE SUITES: puts QEMU's source package VERSION with its
# series applied into TREE. SUITES are lines as above; apt's lists are private,
# so the machine's configuration stays as it is. An empty VERSION means the
# newest of the suites.
qemu_source()
{
    local version=$1 tree=$2 suites=$3 work dsc fw uri suite
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg

    if [ -z "$suites" ]; then
        echo "qemu: apt knows no Debian archive (run apt-get update?)" >&2
        return 1
    fi
    work=$tree.fetch
    rm -rf "$work" "$tree"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    while read -r uri suite; do
        echo "deb-src [signed-by=$keyring] $uri $suite main"
    done <<<"$suites" >"$work/sources.list"

    local apt=(apt-get -q -o Dir::Etc::SourceList="$work/sources.list"
        -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists"
        -o Dir::Cache="$work/cache" -o APT::Sandbox::User=
        -o Acquire::Languages=none)
    (cd "$work" && "${apt[@]}" update &&
        "${apt[@]}" source --download-only --only-source \
            "qemu${version:+=$version}") >"$work/log" 2>&1
    dsc=$(find "$work" -maxdepth 1 -name 'qemu_*.dsc' | head -n 1)
    # apt has checked the archive's signature and the hash of each file
    if [ -z "$dsc" ] ||
       ! dpkg-source --no-check --no-copy -x "$dsc" "$tree" >>"$work/log" 2>&1; then
        tail -n 15 "$work/log" >&2
        echo "qemu: no source package ${version:-qemu} from these suites:" >&2
        echo "$suites" >&2
        return 1
    fi
    # The repacked tarball lacks firmware, but meson wants to see the files
    for fw in $(sed -n "s/^ *'\(edk2-.*\.fd\)',*$/\1/p" \
                    "$tree/pc-bios/meson.build"); do
        [ -e "$tree/pc-bios/$fw.bz2" ] || touch "$tree/pc-bios/$fw.bz2"
    done
    rm -rf "$work"
}
