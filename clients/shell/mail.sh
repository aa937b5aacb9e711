# The work itself, the same behind every protocol: a job is a mail in JSON, and sending it is printing it.
# shellcheck shell=bash

# send PAYLOAD ATTEMPT ends with 0, with 65 if the job is no mail and no further try will make it one, or with 75 if it may work
# the next time, as sysexits.h has it; the reason is on stderr. `takes` (seconds) and `fails` (tries) in the mail stand for what real
# work does: it lasts, and it goes wrong at first.
send() {
    jq -e '(.to | type) == "string" and (.text | type) == "string"' <<<"$1" >/dev/null 2>&1 || {
        echo "not a mail" >&2
        return 65
    }
    sleep "$(jq '.takes // 0' <<<"$1")"
    if [ "$2" -le "$(jq '.fails // 0' <<<"$1")" ]; then
        jq -r '"the mailbox of \(.to) is busy"' <<<"$1" >&2
        return 75
    fi
    jq -r '"\(.to): \(.text)"' <<<"$1"
}
