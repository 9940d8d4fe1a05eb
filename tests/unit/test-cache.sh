#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What scripts/lib/cache.sh and keep.sh keep of a cache folder. Prints TAP.
set -euo pipefail

TOP=$(cd "$(dirname "$0")/../.." && pwd -P)
RNIC_CACHE=$(mktemp -d)
export RNIC_CACHE
unset RNIC_LOG_DIR RNIC_T0 RNIC_KEEP_SH RNIC_STEP_SH RNIC_CACHE_SH
trap 'rm -rf "$RNIC_CACHE"' EXIT

# shellcheck source=scripts/lib/cache.sh
. "$TOP/scripts/lib/cache.sh" 2>/dev/null

number=0
# check NAME COMMAND [ARG]...
check() {
    local name=$1 verdict=ok
    shift
    number=$((number + 1))
    "$@" || verdict='not ok'
    echo "$verdict $number $name"
}

make_product() {
    echo x >"$1/made"
}

# get KEY: a product, in a process of its own, which lets it go
get() {
    (product thing "$1" "making $1" make_product) 2>/dev/null
}

# age NAME HOURS
age() {
    touch -d "$2 hours ago" "$RNIC_CACHE/$1"
}

there() {
    [ "$(cd "$RNIC_CACHE" && echo "$1"-????????????)" = "$2" ]
}

key() {
    printf '%012d' "$1"
}

fill() {
    local n PRODUCTS_KEPT=99
    rm -rf "$RNIC_CACHE"/thing-*
    for n in 1 2 3 4 5 6; do
        get "$(key "$n")"
        # The first is the one that was used last
        age "thing-$(key "$n")" $((n + 1))
    done
}

PRODUCTS_KEPT=3
fill
get "$(key 7)"
check 'those used last are kept, not those made last' there thing \
    "thing-$(key 1) thing-$(key 2) thing-$(key 7)"

fill
get "$(key 6)" # it is there, and used again
get "$(key 7)"
check 'a use counts' there thing \
    "thing-$(key 1) thing-$(key 6) thing-$(key 7)"

fill
for n in 1 2 3 4 5 6; do
    age "thing-$(key "$n")" 0
done
get "$(key 7)"
check 'what was just used is kept, however many' \
    test -d "$RNIC_CACHE/thing-$(key 6)"

fill
exec {held}<"$RNIC_CACHE/thing-$(key 5)"
flock -s "$held"
get "$(key 7)"
check 'what a process uses is kept' \
    test -d "$RNIC_CACHE/thing-$(key 5)"
check 'and others go' test ! -d "$RNIC_CACHE/thing-$(key 6)"
exec {held}>&-

fill
mkfifo "$RNIC_CACHE/end"
python3 -B - "$TOP/tests/vm" "$RNIC_CACHE/thing-$(key 5)" <<'PYTHON' &
import sys
sys.path.insert(0, sys.argv[1])
from rnicvm.kept import hold
hold(sys.argv[2])
open(sys.argv[2] + '/held', 'w').close()
sys.stdin = open(sys.argv[2] + '/../end')
sys.stdin.read()
PYTHON
until [ -e "$RNIC_CACHE/thing-$(key 5)/held" ]; do
    sleep 0.05
done
age "thing-$(key 5)" 9
get "$(key 7)"
check 'what the VM harness uses is kept' \
    test -d "$RNIC_CACHE/thing-$(key 5)"
: >"$RNIC_CACHE/end"
wait

mkdir "$RNIC_CACHE/thing-$(key 8).new" "$RNIC_CACHE/build"
mkdir "$RNIC_CACHE/build/check-thing-$(key 8)" \
    "$RNIC_CACHE/build/thing-$(key 7)"
get "$(key 9)"
check 'what a killed process left is removed' \
    test ! -e "$RNIC_CACHE/thing-$(key 8).new"
check 'a work folder goes with its product' \
    test ! -e "$RNIC_CACHE/build/check-thing-$(key 8)"
check 'and stays with it' test -e "$RNIC_CACHE/build/thing-$(key 7)"

mkdir "$RNIC_CACHE"/log/{1,2,3,4,5}
touch -d '3 hours ago' "$RNIC_CACHE"/log/{1,2,3,4,5}
touch -d '2 hours ago' "$RNIC_CACHE"/log/3
keep_newest 2 "$RNIC_CACHE"/log/*
# Its own is the newest, and in use
check 'logs are bounded' test "$(cd "$RNIC_CACHE/log" && echo ?)" = 3
check 'a script keeps its own log' test -d "$RNIC_LOG_DIR"
echo "1..$number"
