"""Works off mails in gRPC's Work stream. clients/README.md says how auxo.v1 is made."""

import argparse
import os
import queue
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from auxo.v1 import auxo_pb2 as auxo
from auxo.v1 import auxo_pb2_grpc as services

import mail

THREADS = 4


def work(leased):
    """Does the work, and answers how the lease ends."""
    settle = auxo.Settle(token=leased.token)
    try:
        mail.send(mail.read(leased.job.payload), leased.job.attempt)
        settle.ack.SetInParent()
    except mail.Unreadable as error:
        mail.say(f"buried: {error}", sys.stderr)
        settle.bury.error = str(error)
    except Exception as error:  # Again by the job's own policy, or dead after its last try.
        mail.say(f"again: {error}", sys.stderr)
        settle.fail.error = str(error)
    return settle


def serve(channel, name, count):
    says = queue.SimpleQueue()  # What we say in the stream; None closes our side.
    credit = min(THREADS, count)  # No more jobs come than there are threads for, so none waits here while its lease runs.
    start = auxo.WorkRequest.Start(queues=[name], worker=f"python-{os.getpid()}")
    says.put(auxo.WorkRequest(start=start, credit=credit))
    given, settled = credit, 0
    with ThreadPoolExecutor(THREADS) as pool:
        for answer in services.WorkersStub(channel).Work(iter(says.get, None)):
            for leased in answer.jobs:
                pool.submit(lambda leased=leased: says.put(auxo.WorkRequest(settle=[work(leased)])))
            for result in answer.settled:
                if result.HasField("error"):
                    mail.say(f"lost: {result.error.message}", sys.stderr)
                settled += 1
                if given < count:  # A thread is free: one more may come.
                    says.put(auxo.WorkRequest(credit=1))
                    given += 1
            if settled == count:
                says.put(None)
    if settled < count:
        raise ConnectionError("the server stops")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("queue")
    arguments.add_argument("count", type=int, nargs="?", default=sys.maxsize, help="end after so many; without it, never")
    args = arguments.parse_args()
    name, count = args.queue, args.count
    address = os.environ.get("AUXO_HTTP", "127.0.0.1:8000")
    try:
        with grpc.insecure_channel(address) as channel:
            serve(channel, name, count)
    except ConnectionError as error:
        sys.exit(f"error: {address}: {error}")
    except grpc.RpcError as error:
        # What the stream held is given back by the server, at once and without a failure counted.
        sys.exit(f"error: {address}: {error.code().name}: {error.details()}")


main()
