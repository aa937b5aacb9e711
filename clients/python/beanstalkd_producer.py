"""Puts two mails into a queue with a client of beanstalkd."""

import argparse
import json
import os
import sys

import greenstalk

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("queue")
arguments.add_argument("name", help="whom the mails are for")
args = arguments.parse_args()
queue, name = args.queue, args.name
address = os.environ.get("AUXO_BEANSTALK", "127.0.0.1:11300")
host, port = address.rsplit(":", 1)

try:
    with greenstalk.Client((host, int(port)), use=queue) as client:
        # Priority 0 goes before everything else. The id comes back when the job is on the disk.
        welcome = json.dumps({"to": name, "text": "welcome"})
        print(client.put(welcome, priority=0, ttr=60))

        # The queue keeps it until it is due: the producer need not wait, nor even live that long.
        reminder = json.dumps({"to": name, "text": "how do you like it?"})
        print(client.put(reminder, delay=1, ttr=60))
except (OSError, greenstalk.Error) as error:
    # The protocol has no keys: if the connection breaks before the answer, nobody can say whether the job is there.
    sys.exit(f"error: {address}: {error!r}")
