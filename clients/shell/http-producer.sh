#!/usr/bin/env bash
# Pushes two mails with curl: http-producer.sh QUEUE NAME
set -euo pipefail

[ $# -eq 2 ] || {
    echo "usage: http-producer.sh QUEUE NAME" >&2
    exit 2
}
queue=$1 name=$2
address=${AUXO_HTTP:-127.0.0.1:8000}

# push TEXT FIELDS. The key makes the job unique, so curl may repeat a push whose answer was lost: it is answered the same id.
push() {
    local job answer
    job=$(jq -cn --arg to "$name" --arg text "$1" --argjson fields "$2" \
        '{payload: {$to, $text}, key: "\($text):\($to)", on_duplicate: "return"} + $fields')
    answer=$(curl -sS --retry 3 --max-time 10 --json "$job" "http://$address/v1/queues/$(jq -rn --arg queue "$queue" '$queue | @uri')/jobs") || {
        echo "error: $address: no answer" >&2
        exit 1
    }
    jq -er '.id' <<<"$answer" || {
        echo "error: $address: $answer" >&2
        exit 1
    }
}

push "welcome" '{"priority": 0}'
push "how do you like it?" '{"delay": "1s"}'
