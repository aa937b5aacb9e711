#!/usr/bin/env bash
# Adds two mails to a queue with redis-cli and Disque's commands: resp-producer.sh QUEUE NAME
set -euo pipefail

[ $# -eq 2 ] || {
    echo "usage: resp-producer.sh QUEUE NAME" >&2
    exit 2
}
queue=$1 name=$2
address=${AUXO_RESP:-127.0.0.1:7711}

# With -e an error of the server ends redis-cli with 1; without it, a script would not notice.
auxo() {
    redis-cli -u "redis://$address" -e "$@"
}

mail() {
    jq -cn --arg to "$name" --arg text "$1" '{$to, $text}'
}

# RETRY is the time that a worker has for it. The 0 is Disque's timeout, which has no effect here.
auxo ADDJOB "$queue" "$(mail "welcome")" 0 RETRY 60
auxo ADDJOB "$queue" "$(mail "how do you like it?")" 0 RETRY 60 DELAY 1
