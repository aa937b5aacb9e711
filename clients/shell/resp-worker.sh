#!/usr/bin/env bash
# Works off mails with redis-cli (7 or newer, for --json) and Disque's commands: resp-worker.sh QUEUE [COUNT]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/mail.sh"

TRIES=3 # ADDJOB has no limit of its own.

[[ $# -eq 1 || $# -eq 2 && $2 =~ ^[0-9]+$ ]] || {
    echo "usage: resp-worker.sh QUEUE [COUNT]" >&2
    exit 2
}
queue=$1 left=${2:--1}
address=${AUXO_RESP:-127.0.0.1:7711}

auxo() {
    redis-cli -u "redis://$address" -e "$@"
}

exec 3>&1 # Where mails go, while the reason of a failure is caught.
while [ "$left" -ne 0 ]; do
    jobs=$(auxo --json GETJOB TIMEOUT 30000 WITHCOUNTERS FROM "$queue") || {
        echo "error: no jobs from $address" >&2
        exit 1
    }
    [ "$jobs" != null ] || continue
    left=$((left - 1))
    # Its id names just this delivery, so it holds over connections, of which each redis-cli has its own.
    delivery=$(jq -r '.[0][1]' <<<"$jobs")
    attempt=$(jq '.[0] | .[4] + .[6] + 1' <<<"$jobs")

    code=0
    reason=$(send "$(jq -r '.[0][2]' <<<"$jobs")" "$attempt" 2>&1 >&3) || code=$?
    if [ "$code" -eq 0 ]; then
        ended=$(auxo ACKJOB "$delivery")
    elif [ "$code" -eq 75 ] && [ "$attempt" -lt "$TRIES" ]; then
        echo "again: $reason" >&2
        ended=$(auxo NACK "$delivery")
    else
        # Disque would go on until the job's TTL is over. Here it can be put aside with the reason, for `auxo kick`.
        echo "buried: $reason" >&2
        auxo AUXO.SETTLE "$delivery" bury error "$reason" >/dev/null && ended=1 || ended=0
    fi
    # It took longer than RETRY: somebody else has the job by now, and nothing was changed.
    [ "$ended" -eq 1 ] || echo "lost: $delivery" >&2
done
