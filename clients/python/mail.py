"""The work itself, the same behind every protocol: a job is a mail in JSON, and sending it is printing it."""

import json
import sys
import time


class Unreadable(Exception):
    """The job is no mail, and no further try will make it one."""


class Busy(Exception):
    """It did not work this time; it may the next."""


def read(payload):
    try:
        mail = json.loads(payload)
        return {"takes": 0, "fails": 0, "to": mail["to"], "text": mail["text"]} | mail
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"not a mail: {error!r}") from error


def send(mail, attempt):
    """`takes` (seconds) and `fails` (tries) stand for what real work does: it lasts, and it goes wrong at first."""
    time.sleep(mail["takes"])
    if attempt <= mail["fails"]:
        raise Busy(f"the mailbox of {mail['to']} is busy")
    say(f"{mail['to']}: {mail['text']}")


def say(text, where=sys.stdout):
    """One write a line, unlike print, so that the lines of threads do not mix."""
    where.write(f"{text}\n")
    where.flush()
