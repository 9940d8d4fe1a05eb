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

# How many products of a name are kept besides those that are used
PRODUCTS_KEPT=4

product_build() {
    local name=$1 what=$3 dir=$RNIC_CACHE/$1-$2 old
    shift 3
    [ -d "$dir" ] && return
    # Whoever left such a folder did not come to its end: this one has the lock
    rm -rf "$RNIC_CACHE/$name"-????????????.{new,dropped}
    mkdir "$dir.new"
    PRODUCT_FINAL=$dir step "$what" "$@" "$dir.new"
    mv "$dir.new" "$dir"
    keep_newest "$PRODUCTS_KEPT" "$RNIC_CACHE/$name"-????????????
    # Where modules were compiled for kernels that are gone
    for old in "$RNIC_CACHE/build"/{,check-}"$name"-????????????; do
        [ -d "$RNIC_CACHE/$name${old##*"$name"}" ] || rm -rf "$old"
    done
}

# product NAME KEY WHAT BUILD [ARG]...: the folder NAME-KEY of the cache, its
# name left in PRODUCT. When it is missing, `BUILD [ARG]... DIR` fills a new
# folder DIR, shown as step WHAT; PRODUCT_FINAL is the name that DIR will get.
# It stays as long as this script runs.
product() {
    local dir=$RNIC_CACHE/$1-$2
    until keep_hold "$dir"; do
        locked "$1" product_build "$@"
    done
    # shellcheck disable=SC2034  # read by the caller
    PRODUCT=$dir
}

# checkout_folder NAME ROOT: a folder that outlives the checkout ROOT is built in,
# its name left in CHECKOUT_FOLDER; one a checkout, since meson remembers where
# the sources are. Those of some other checkouts are kept.
checkout_folder() {
    CHECKOUT_FOLDER=$RNIC_CACHE/$1/$(hash_text <<<"$2")
    until keep_hold "$CHECKOUT_FOLDER"; do
        mkdir -p "$CHECKOUT_FOLDER"
    done
    keep_newest "$PRODUCTS_KEPT" "$RNIC_CACHE/$1"/????????????
}
