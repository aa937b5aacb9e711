"""Pushes two mails over gRPC. clients/README.md says how auxo.v1 is made."""

import argparse
import json
import os
import sys

import grpc
from auxo.v1 import auxo_pb2 as auxo
from auxo.v1 import auxo_pb2_grpc as services

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("queue")
arguments.add_argument("name", help="whom the mails are for")
args = arguments.parse_args()
queue, name = args.queue, args.name
address = os.environ.get("AUXO_HTTP", "127.0.0.1:8000")


def mail(text, **how):
    # The key makes the job unique, so a push whose answer was lost can be repeated: it answers the same id.
    spec = auxo.JobSpec(
        payload=json.dumps({"to": name, "text": text}).encode(),
        key=f"{text}:{name}",
        on_duplicate=auxo.ON_DUPLICATE_RETURN,
        **how,
    )
    return auxo.NewJob(queue=queue, spec=spec)


try:
    with grpc.insecure_channel(address) as channel:
        jobs = [mail("welcome", priority=0), mail("how do you like it?", delay_ms=1000)]
        pushed = services.JobsStub(channel).Push(auxo.PushRequest(jobs=jobs), timeout=10)
except grpc.RpcError as error:
    sys.exit(f"error: {address}: {error.code().name}: {error.details()}")

for result in pushed.results:  # Each job of a batch has its own answer.
    if result.HasField("error"):
        sys.exit(f"error: {result.error.code}: {result.error.message}")
    print(result.ok.id)
