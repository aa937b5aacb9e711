"""What schemathesis cannot know from the document: how to make values of our formats, what would take too long, and how
arrays are answered."""

import time

import jsonschema_rs
import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks

U64 = st.integers(0, 2**64 - 1)


def token(job, counter, nonce):
    return f"{job}-{counter}-{nonce:016x}"


TOKENS = st.builds(token, U64, U64, U64)
# None is longer than a minute, the shortest of all limits on a length of time.
SPANS = st.sampled_from(["1ms", "250ms", "1.5s", "30s", "1m", "59s999ms", "60000"])
SIZES = st.sampled_from(["1B", "64KiB", "1.5GiB", "10MB", "1tib", "4096"])
CRONS = st.sampled_from(["* * * * *", "*/5 * * * * *", "0 3 * * 1-5", "30 2 29 2 *", "@daily"])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
PATTERNS = st.sampled_from(["#", "*", "order.*.paid", "order.#", "a"])
MOMENTS = st.sampled_from(["1970-01-01T00:00:00Z", "2020-02-29T23:59:59.999+14:00", "2026-06-01T00:00:00-08:00"])

for name, values in {
    "span": SPANS,
    "size": SIZES,
    "token": TOKENS,
    "id": U64.map(str),
    "cron": CRONS,
    "zone": ZONES,
    "topic-pattern": PATTERNS,
    "date-time": MOMENTS,
    "moment": MOMENTS | st.just("0"),
    # Few, so that leases find the jobs that pushes made.
    "queue": st.sampled_from(["mail", "a/b", "$(;:.)+_-"]),
    # In a query a cursor without a value counts as left out.
    "cursor": st.just(""),
}.items():
    schemathesis.openapi.format(name, values)


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if case.operation.path == "/v1/lease" and isinstance(body, dict):
        shorten(body)
    if case.operation.path == "/v1/queues/{queue}/jobs" and case.headers and "Idempotency-Key" in case.headers:
        # A header and a body that do not go together: nothing in OpenAPI says so.
        if not isinstance(body, dict) or body.get("key") is not None:
            del case.headers["Idempotency-Key"]
    if case.operation.path == "/v1/jobs:bulk" and isinstance(body, dict) and isinstance(body.get("cursor"), str):
        # Only a list that goes on gives one out.
        del body["cursor"]
    for part in body if isinstance(body, list) else [body]:
        bring_near(part)


def shorten(ask):
    """A call that waits for a minute is right, and too long for a test. Wrong values stay wrong."""
    wait = ask.get("wait")
    if type(wait) in (int, float) and 20 < wait <= 60_000:
        ask["wait"] = 20
    elif isinstance(wait, str) and wait.endswith(("s", "m", "0")) and wait[0].isdigit():
        ask["wait"] = "20ms"


def bring_near(part):
    """A due time lies at most ten years ahead; a schema knows no present."""
    if not isinstance(part, dict):
        return
    year = 365 * 24 * 60 * 60 * 1000
    now = int(time.time() * 1000)
    for field in ("run_at", "expires_at", "paused_until"):
        at = part.get(field)
        if type(at) in (int, float) and now + 9 * year < at <= 253_402_300_799_999:
            part[field] = now + year
    bring_near(part.get("job"))


@schemathesis.check
def right_requests_are_accepted(ctx, response, case):
    """positive_data_acceptance for what is right indeed: made from a schema with `not`, some bodies are not what it allows."""
    if case.operation.path == "/v1/queues/{queue}/adopt" and isinstance(case.body, dict) and case.body.get("jobs"):
        # Jobs with their whole lives, which only a store shows: no two fields of one may contradict each other.
        return
    document = case.operation.schema.raw_schema
    operation = document["paths"][case.operation.path][case.operation.method]
    if "requestBody" in operation and isinstance(case.body, (dict, list)):
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        schema = {**schema, "components": document["components"]}
        if not jsonschema_rs.is_valid(schema, case.body, validate_formats=True):
            return
    checks.positive_data_acceptance(ctx, response, case)


@schemathesis.check
def wrong_items_are_refused(ctx, response, case):
    """Every item of an array is answered for itself: a wrong one is refused inside a 200."""
    if case.operation.path not in ("/v1/queues/{queue}/jobs", "/v1/settle", "/v1/extend"):
        return
    if response.status_code == 200 and isinstance(case.body, list):
        if any("error" in result for result in response.json()["results"]):
            return
    checks.negative_data_rejection(ctx, response, case)
