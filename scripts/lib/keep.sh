# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Which folders of the cache are kept: those that a process uses, and a bounded
# number of others, by when they were last used. A folder is used by whoever has
# a shared lock on it (tests/vm/rnicvm/kept.py does the same).

[ -n "${RNIC_KEEP_SH:-}" ] && return
RNIC_KEEP_SH=1

# How long a folder is kept in any case after it was used, so that one may be
# named to a process that has yet to lock it
KEEP_MINUTES=60

# keep_hold DIR: use it until this script, and what it starts, ends. Fails if
# there is no such folder (any more).
keep_hold() {
    local fd
    { exec {fd}<"$1"; } 2>/dev/null || return
    flock -s "$fd"
    # Somebody may have removed it meanwhile
    if [ "/proc/self/fd/$fd" -ef "$1" ]; then
        touch "$1"
    else
        exec {fd}>&-
        return 1
    fi
}

# keep_drop DIR: remove it unless somebody uses it
keep_drop() {
    local fd
    { exec {fd}<"$1"; } 2>/dev/null || return 0
    # Under another name first: nobody is to find half of it
    if flock -n -x "$fd" && mv -T "$1" "$1.dropped" 2>/dev/null; then
        rm -rf "$1.dropped" ||
            echo "cannot remove all of $1.dropped: do it by hand" >&2
    fi
    exec {fd}>&-
}

# keep_newest COUNT [DIR]...: drop all of them but COUNT
keep_newest() {
    local count=$1 dir
    shift
    [ $# -gt "$count" ] || return 0
    while read -r dir; do
        keep_drop "$dir"
    done < <(find "$@" -maxdepth 0 -type d -printf '%T@ %p\n' 2>/dev/null |
        sort -rn | tail -n +$((count + 1)) | cut -d' ' -f2- |
        xargs -r -d '\n' -I '{}' find '{}' -maxdepth 0 \
            -mmin +"$KEEP_MINUTES")
}
