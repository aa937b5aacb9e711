"""Works off mails with a client of beanstalkd."""

import argparse
import os
import sys

import greenstalk

import mail

TRIES = 3  # The protocol knows no retry policy; the worker has one.


def work(client, job):
    stats = client.stats_job(job)
    attempt = stats["reserves"]
    try:
        mail.send(mail.read(job.body), attempt)
    except mail.Busy as error:
        if attempt < TRIES:
            print(f"again: {error}", file=sys.stderr)
            client.release(job, priority=stats["pri"], delay=attempt)  # a second, then two
            return
        bury(client, job, stats, error)
    except mail.Unreadable as error:
        bury(client, job, stats, error)
    else:
        client.delete(job)


def bury(client, job, stats, error):
    """Keeps the job for a person to look at: `auxo jobs --state dead`, then `auxo kick`."""
    print(f"buried: {error}", file=sys.stderr)
    client.bury(job, priority=stats["pri"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("queue")
    arguments.add_argument("count", type=int, nargs="?", default=-1, help="end after so many; without it, never")
    args = arguments.parse_args()
    queue, left = args.queue, args.count
    address = os.environ.get("AUXO_BEANSTALK", "127.0.0.1:11300")
    host, port = address.rsplit(":", 1)
    try:
        # Payloads are bytes: with an encoding, one that is no text would be an exception of reserve.
        with greenstalk.Client((host, int(port)), encoding=None, watch=queue) as client:
            while left != 0:
                try:
                    job = client.reserve(timeout=30)
                except greenstalk.TimedOutError:
                    continue  # A finite wait notices a server that is gone; an endless one might not.
                left -= 1
                try:
                    work(client, job)
                except greenstalk.NotFoundError:
                    # It took longer than the TTR, and somebody else has the job. `client.touch(job)` in between prolongs it.
                    print(f"lost: {job.id}", file=sys.stderr)
    except (OSError, greenstalk.Error) as error:
        sys.exit(f"error: {address}: {error!r}")  # What was reserved is ready again as soon as the connection ends.


main()
