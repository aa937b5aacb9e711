"""Adds two mails to a queue with a client of Redis and Disque's commands."""

import argparse
import json
import os
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("queue")
arguments.add_argument("name", help="whom the mails are for")
args = arguments.parse_args()
queue, name = args.queue, args.name
address = os.environ.get("AUXO_RESP", "127.0.0.1:7711")

# The client would send a command again whose answer was lost, which makes two jobs of one. (AUXO.PUSH has keys against that.)
once = Retry(NoBackoff(), 0)

try:
    with redis.Redis.from_url(f"redis://{address}", retry=once, decode_responses=True) as auxo:
        # RETRY is the time that a worker has, TTL the life of the job; the 0 is Disque's timeout, which has no effect here.
        welcome = json.dumps({"to": name, "text": "welcome"})
        print(auxo.execute_command("ADDJOB", queue, welcome, 0, "RETRY", 60, "TTL", 86400))

        reminder = json.dumps({"to": name, "text": "how do you like it?"})
        print(auxo.execute_command("ADDJOB", queue, reminder, 0, "DELAY", 1, "RETRY", 60, "TTL", 86400))
except redis.RedisError as error:
    sys.exit(f"error: {address}: {error}")
