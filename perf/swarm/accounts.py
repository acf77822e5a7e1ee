"""Make and close accounts through the API of a server whose database is not ours, and count those that are left.

``python -m perf.swarm.accounts PREFIX``, in the environment of a server of our own, prints a JSON object: ``accounts``
whose address begins with PREFIX, and ``sessions`` that have not ended.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import django

from perf.http_client import Connection, Reply, ResponseError
from perf.rig.processes import StartError
from perf.swarm.answers import Answer, pair_in, retry_after_s
from perf.swarm.people import Ledger, still_open

API: Final = "/api/v1/access"
TIMEOUT_S: Final = 30.0
THREADS: Final = 4  # more would only wait for a hash thread
TRIES: Final = 20  # of a request that is shed; the load is over by then, or has not begun


class Unanswered(Exception):
    """Nothing answers, or not as it must; the message says what."""


def sign_up(host: str, emails: Sequence[str], password: str, ledger: Ledger) -> None:
    """Make the accounts; the ledger knows of each before it is asked for.

    Raises:
        StartError: one could not be made.
    """

    def make(email: str) -> None:
        ledger.made(email)
        body = {"email": email, "password": password, "name": "Swarm"}
        if (status := _call(host, "POST", "/signup", body).status) != 201:
            raise Unanswered(f"{host} answered a sign-up with {status} instead of 201: is it an IronAuth?")

    if errors := _each(make, emails):
        raise StartError(errors[0])


def close_all(host: str, folder: Path, password: str) -> list[str]:
    """Close every account the ledger in ``folder`` still has; return the addresses of those that could not be."""
    ledger = Ledger(folder, "cleaning")

    def close(email: str) -> None:
        signed_in = _call(host, "POST", "/signin", {"email": email, "password": password})
        if signed_in.status == 401:  # it was never made
            ledger.closed(email)
            return
        if signed_in.status != 200:
            raise Unanswered(f"{host} answered a sign-in with {signed_in.status}")
        bearer = pair_in(signed_in).access_token
        if (status := _call(host, "DELETE", "/me", {"password": password}, bearer).status) != 204:
            raise Unanswered(f"{host} answered the closing of an account with {status}")
        ledger.closed(email)

    _each(close, still_open(folder))
    return still_open(folder)


def _each(work: Callable[[str], None], emails: Sequence[str]) -> list[str]:
    """Do ``work`` for all, a few at a time; return what went wrong."""
    errors = []
    with ThreadPoolExecutor(THREADS) as threads:
        for future in [threads.submit(work, email) for email in emails]:
            try:
                future.result()
            except Unanswered as error:
                errors.append(str(error))
    return errors


def _call(host: str, method: str, path: str, body: dict[str, str], bearer: str = "") -> Answer:
    """Send one request, again for as long as it is shed. Raises ``Unanswered`` when nothing answers."""
    address = urlsplit(host)
    connection = Connection((address.hostname or "", address.port or 80), host=address.netloc, patience_s=TIMEOUT_S)

    async def send() -> Reply:
        async with connection:
            return await connection.send(method, API + path, json=body, token=bearer)

    for _ in range(TRIES):
        try:
            reply = asyncio.run(send())
        except (OSError, ResponseError) as error:
            raise Unanswered(f"nothing answers at {host}: {error}") from error
        answer = Answer(reply.status, {name: reply.field(name) for name in reply.fields}, reply.body)
        asked_s = retry_after_s(answer)
        if asked_s is None:
            return answer
        time.sleep(asked_s)
    raise Unanswered(f"{host} shed {method} {path} {TRIES} times")


def main() -> int:
    """Count. Returns 2 without a prefix."""
    if len(sys.argv) != 2:
        sys.stderr.write("Name the prefix of the run's addresses.\n")
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    # Django's models can only be imported after django.setup().
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs django.setup()

    from tokens.sessions.models import Session  # noqa: PLC0415 - needs django.setup()

    accounts = get_user_model().objects.filter(email__startswith=f"{sys.argv[1]}-").count()
    sessions = Session.objects.filter(revoked_at=None).count()
    sys.stdout.write(json.dumps({"accounts": accounts, "sessions": sessions}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
