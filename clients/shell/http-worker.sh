#!/usr/bin/env bash
# Works off mails with curl: http-worker.sh QUEUE [COUNT]. (`auxo work QUEUE --exec COMMAND` does it with less.)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/mail.sh"

[[ $# -eq 1 || $# -eq 2 && $2 =~ ^[0-9]+$ ]] || {
    echo "usage: http-worker.sh QUEUE [COUNT]" >&2
    exit 2
}
queue=$1 left=${2:--1}
address=${AUXO_HTTP:-127.0.0.1:8000}

# call PATH BODY. More patience than the longest wait that is asked for.
call() {
    curl -sS --max-time 45 --json "$2" "http://$address/v1/$1" || {
        echo "error: $address: no answer" >&2
        exit 1
    }
}

exec 3>&1 # Where mails go, while the reason of a failure is caught.
while [ "$left" -ne 0 ]; do
    answer=$(call lease "$(jq -cn --arg queue "$queue" '{queues: [$queue], wait: "30s"}')")
    job=$(jq -ce '.jobs[0] // empty' <<<"$answer") || {
        jq -e 'has("jobs")' <<<"$answer" >/dev/null && continue # Nothing to do for half a minute.
        echo "error: $address: $answer" >&2
        exit 1
    }
    left=$((left - 1))

    code=0
    reason=$(send "$(jq -c '.payload' <<<"$job")" "$(jq '.attempt' <<<"$job")" 2>&1 >&3) || code=$?
    case $code in
        0) outcome=ack ;;
        65) outcome=bury word=buried ;; # For a person: `auxo jobs --state dead`, then `auxo kick`.
        *) outcome=fail word=again ;;   # By the job's own policy, or dead after its last try.
    esac
    [ "$outcome" = ack ] || echo "$word: $reason" >&2
    settle=$(jq -c --arg outcome "$outcome" --arg error "$reason" \
        '{token, $outcome} + if $outcome == "ack" then {} else {$error} end' <<<"$job")
    answer=$(call settle "$settle")
    case $(jq -r '.code // ""' <<<"$answer") in
        "") ;;
        lease_lost) echo "lost: $(jq -r '.id' <<<"$job")" >&2 ;; # It took longer than its ttr; nothing was changed.
        *)
            echo "error: $address: $answer" >&2
            exit 1
            ;;
    esac
done
