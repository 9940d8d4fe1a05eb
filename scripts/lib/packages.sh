# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Packages: installed on this machine from its own sources, or only fetched
# from another suite of the same mirror through a private apt configuration.

[ -n "${RNIC_PACKAGES_SH:-}" ] && return
RNIC_PACKAGES_SH=1

# shellcheck source=scripts/lib/cache.sh
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

RNIC_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# as_root COMMAND [ARG]...: through sudo unless already root
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "root is needed for: $* (run it as root, or install sudo)"
    fi
}

host_apt_update() {
    as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -q update
}

host_apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        install --no-install-recommends "$@"
}

# need_packages NAME...: install what is missing on this machine
need_packages() {
    local name missing=()
    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" \
            = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} = 0 ] && return
    # sudo may ask for a password, which a logged step could not show
    [ "$(id -u)" = 0 ] || as_root true
    attempt "installing ${missing[*]}" host_apt_install "${missing[@]}"
    [ "$ATTEMPT_RC" = 0 ] && return
    # No package lists yet, or lists older than the archive
    step "updating the package lists" host_apt_update
    step "installing ${missing[*]} again" host_apt_install "${missing[@]}"
}

# debian_mirror: the URI from which this machine gets its Debian suite
debian_mirror() {
    local codename
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    {
        # deb822: paragraphs of fields; comments may stand inside a field
        { cat /etc/apt/sources.list.d/*.sources 2>/dev/null || true; } |
            sed '/^#/d' |
            awk -v suite="$codename" -v RS= '
            {
                uri = ""; found = 0; off = 0; field = ""
                n = split($0, line, "\n")
                for (i = 1; i <= n; i++) {
                    text = line[i]
                    if (text ~ /^[^ \t:]+:/) {
                        field = tolower(substr(text, 1, index(text, ":") - 1))
                        text = substr(text, index(text, ":") + 1)
                    }
                    m = split(text, word, /[ \t]+/)
                    for (j = 1; j <= m; j++) {
                        if (word[j] == "")
                            continue
                        if (field == "uris" && uri == "")
                            uri = word[j]
                        if (field == "suites" && word[j] == suite)
                            found = 1
                        if (field == "enabled" && word[j] == "no")
                            off = 1
                    }
                }
                if (found && uri != "" && !off)
                    print uri
            }'
        # one line: deb [options] URI SUITE COMPONENT...
        {
            cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
                2>/dev/null || true
        } | sed -E -n 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?//p' |
            awk -v suite="$codename" '$2 == suite { print $1 }'
    } | sed -n 's#/*$##; 1p'
}

# apt_suite SUITE: make a private apt configuration for that suite of this
# machine's mirror, and leave the options for apt-get and apt-cache in APT.
# Nothing of it touches the machine's own lists; no package counts as
# installed in it.
apt_suite() {
    local suite=$1 dir=$RNIC_CACHE/apt/$1 mirror
    mirror=${RNIC_MIRROR:-$(debian_mirror)}
    [ -n "$mirror" ] || die "no Debian mirror in this machine's apt sources" \
        "(RNIC_MIRROR=URI names one)"
    mkdir -p "$dir"/{lists/partial,archives/partial}
    : >"$dir/status"
    printf '%s [signed-by=%s] %s %s main\n' \
        deb "$RNIC_KEYRING" "$mirror" "$suite" \
        deb-src "$RNIC_KEYRING" "$mirror" "$suite" >"$dir/sources.list"
    # sid's Release file expires on a mirror that is a snapshot
    # shellcheck disable=SC2054  # the comma is a value: force none
    APT=(-o Dir::Etc::SourceList="$dir/sources.list"
        -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$dir/lists"
        -o Dir::State::Status="$dir/status"
        -o Dir::State::extended_states="$dir/extended_states"
        -o Dir::Cache="$dir"
        -o Dir::Cache::archives="$dir/archives"
        -o APT::Sandbox::User=root
        -o APT::Install-Recommends=false
        -o pkgCacheGen::Essential=none -o pkgCacheGen::ForceEssential=,
        -o Acquire::Languages=none
        -o Acquire::Retries=3
        -o Acquire::Check-Valid-Until=false
        -q)
}

# apt_suite_update SUITE: (in a step) fetch its lists
apt_suite_update() {
    apt_suite "$1"
    apt-get "${APT[@]}" update
    # apt only warns when a list could not be had
    [ -n "$(apt-cache "${APT[@]}" show busybox 2>/dev/null)" ] || {
        echo "the mirror does not carry $1"
        return 1
    }
}

# apt_suite_extract SUITE DIR PACKAGE...: (in a step) unpack packages of
# another suite into DIR, with all they depend on, without any maintainer
# script; the name and version of each go to DIR/packages. EXTRACT_WITHOUT
# lists packages to leave out although others depend on them.
apt_suite_extract() {
    local suite=$1 dir=$2 deb archives name EXTRACT_WITHOUT=${EXTRACT_WITHOUT:-}
    shift 2
    apt_suite "$suite"
    archives=$RNIC_CACHE/apt/$suite/archives
    rm -f "$archives"/*.deb
    apt-get "${APT[@]}" install -y --download-only "$@"
    # merged /usr, for the suites where some packages still ship /bin or /lib
    mkdir -p "$dir"/usr/{bin,sbin,lib,lib64}
    for deb in bin sbin lib lib64; do
        ln -sfn usr/$deb "$dir/$deb"
    done
    for deb in "$archives"/*.deb; do
        name=$(basename "${deb%%_*}")
        [[ " ${EXTRACT_WITHOUT//$'\n'/ } " == *" $name "* ]] && continue
        dpkg-deb --fsys-tarfile "$deb" |
            tar -x --no-same-owner --keep-directory-symlink -C "$dir"
        # shellcheck disable=SC2016  # dpkg-deb's own variables
        dpkg-deb -W --showformat '${Package} ${Version}\n' "$deb"
    done >"$dir/packages"
    rm -f "$archives"/*.deb
}
