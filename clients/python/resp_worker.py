"""Works off mails with a client of Redis and Disque's commands."""

import argparse
import os
import sys

import redis

import mail

TRIES = 3


def work(auxo, delivery, payload, attempt):
    """Answers how many deliveries were ended: none if this one was no longer ours."""
    try:
        mail.send(mail.read(payload), attempt)
    except mail.Busy as error:
        if attempt < TRIES:
            print(f"again: {error}", file=sys.stderr)
            return auxo.execute_command("NACK", delivery)  # At once. AUXO.SETTLE … fail waits by the job's backoff.
        return bury(auxo, delivery, error)
    except mail.Unreadable as error:
        return bury(auxo, delivery, error)
    return auxo.execute_command("ACKJOB", delivery)


def bury(auxo, delivery, error):
    """Disque would go on until the job's TTL is over. Here it can be put aside with the reason, for `auxo kick`."""
    print(f"buried: {error}", file=sys.stderr)
    try:
        auxo.execute_command("AUXO.SETTLE", delivery, "bury", "error", str(error))
        return 1
    except redis.ResponseError as refusal:
        if "LEASE_LOST" not in str(refusal):
            raise
        return 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("queue")
    arguments.add_argument("count", type=int, nargs="?", default=-1, help="end after so many; without it, never")
    args = arguments.parse_args()
    queue, left = args.queue, args.count
    address = os.environ.get("AUXO_RESP", "127.0.0.1:7711")
    try:
        # The client must have more patience than the server is asked for, or it hangs up on a job that is on its way.
        with redis.Redis.from_url(f"redis://{address}", socket_timeout=40) as auxo:
            while left != 0:
                jobs = auxo.execute_command("GETJOB", "TIMEOUT", 30_000, "WITHCOUNTERS", "FROM", queue)
                for _, delivery, payload, _, nacks, _, deliveries in jobs or []:
                    left -= 1
                    if not work(auxo, delivery, payload, nacks + deliveries + 1):
                        print(f"lost: {delivery.decode()}", file=sys.stderr)  # It took longer than RETRY.
    except redis.RedisError as error:
        sys.exit(f"error: {address}: {error}")


main()
