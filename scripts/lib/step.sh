# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Progress lines, one log file a step, and failures that name their log.
# Sourced by bash scripts that run with `set -euo pipefail`.
#
# Progress goes to stderr (as it was when this file was sourced), so that a
# script's standard output stays free for its results.

[ -n "${RNIC_STEP_SH:-}" ] && return
RNIC_STEP_SH=1

# depmod and friends live in sbin, which is not in every user's PATH
PATH=$PATH:/usr/sbin:/sbin

RNIC_CACHE=${RNIC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rnic}
mkdir -p "$RNIC_CACHE/log" "$RNIC_CACHE/lock"
RNIC_CACHE=$(cd "$RNIC_CACHE" && pwd -P)
export RNIC_CACHE

# shellcheck source=scripts/lib/keep.sh
. "$(dirname "${BASH_SOURCE[0]}")/keep.sh"

# How many scripts' log folders are kept
LOGS_KEPT=100

# One clock and one log folder for a script and all the scripts it calls.
RNIC_T0=${RNIC_T0:-$(date +%s)}
if [ -z "${RNIC_LOG_DIR:-}" ]; then
    RNIC_LOG_DIR=$RNIC_CACHE/log/$(basename "$0")-$(date +%m%d-%H%M%S)-$$
    mkdir -p "$RNIC_LOG_DIR"
    keep_hold "$RNIC_LOG_DIR"
    keep_newest "$LOGS_KEPT" "$RNIC_CACHE/log"/*
fi
export RNIC_T0 RNIC_LOG_DIR

exec {RNIC_STEP_FD}>&2

# say TEXT: a progress line with the seconds since the first script started
say() {
    printf '[%3ds] %s\n' $(($(date +%s) - RNIC_T0)) "$*" >&"$RNIC_STEP_FD"
}

# die TEXT: end the script (or the step's subshell) with an error
die() {
    printf 'error: %s\n' "$*" >&"$RNIC_STEP_FD"
    exit 1
}

# attempt WHAT COMMAND [ARG]...: run a command or function in a subshell with
# `set -e`, its output in a log file. Always returns 0 and leaves the status
# in ATTEMPT_RC and the log's name in ATTEMPT_LOG. (A function that returned
# the status would be called in a condition, where bash ignores `set -e`.)
attempt() {
    local what=$1 slug opts=$-
    shift
    slug=$(printf '%s' "$what" | tr -cs 'A-Za-z0-9.+' - | cut -c1-60)
    ATTEMPT_LOG=$RNIC_LOG_DIR/${slug%-}.log
    say "$what"
    set +e
    (
        set -e
        "$@"
    ) >>"$ATTEMPT_LOG" 2>&1 </dev/null
    ATTEMPT_RC=$?
    [[ $opts == *e* ]] && set -e
    return 0
}

# step WHAT COMMAND [ARG]...: as attempt, but a failure ends the script
step() {
    attempt "$@"
    [ "$ATTEMPT_RC" = 0 ] && return
    {
        printf 'error: failed: %s (status %s)\n' "$1" "$ATTEMPT_RC"
        printf 'log: %s, its last lines:\n' "$ATTEMPT_LOG"
        tail -n 25 "$ATTEMPT_LOG" | sed 's/^/    /'
    } >&"$RNIC_STEP_FD"
    exit 1
}
