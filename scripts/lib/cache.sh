# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Products in the cache folder, each keyed by a hash of what it is made from.

[ -n "${RNIC_CACHE_SH:-}" ] && return
RNIC_CACHE_SH=1

# shellcheck source=scripts/lib/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/step.sh"

# hash_text: 12 hexadecimal digits from standard input
hash_text() {
    sha256sum | cut -c1-12
}

# hash_tree PATH...: the same from the names and contents of files; a path
# that does not exist counts as empty
hash_tree() {
    find "$@" -type f ! -name '*.pyc' -print0 2>/dev/null | sort -z |
        xargs -0r sha256sum | hash_text
}

# locked NAME COMMAND [ARG]...: run it while no other process has that lock
locked() {
    local fd name=$1
    shift
    exec {fd}>"$RNIC_CACHE/lock/$name"
    if ! flock -n "$fd"; then
        say "waiting for another process that builds $name"
        flock "$fd"
    fi
    "$@"
    exec {fd}>&-
}

# How long a product that nothing uses is kept: two weeks
PRODUCT_MINUTES=20160

product_build() {
    local name=$1 what=$3 dir=$RNIC_CACHE/$1-$2
    shift 3
    [ -d "$dir" ] && return
    rm -rf "$dir.new"
    mkdir "$dir.new"
    PRODUCT_FINAL=$dir step "$what" "$@" "$dir.new"
    mv "$dir.new" "$dir"
    # Other products of this name that nothing used for so long
    find "$RNIC_CACHE" -maxdepth 1 -name "$name-????????????" \
        -mmin +"$PRODUCT_MINUTES" -exec rm -rf {} + || true
}

# product NAME KEY WHAT BUILD [ARG]...: the folder NAME-KEY of the cache, its
# name left in PRODUCT. When it is missing, `BUILD [ARG]... DIR` fills a new
# folder DIR, shown as step WHAT; PRODUCT_FINAL is the name that DIR will get.
product() {
    local dir=$RNIC_CACHE/$1-$2
    if [ -d "$dir" ]; then
        touch "$dir"
    else
        locked "$1" product_build "$@"
    fi
    # shellcheck disable=SC2034  # read by the caller
    PRODUCT=$dir
}
