"""Keys of requests that must not be done twice, with the answer of the one that was (Idempotency-Key, IETF draft).

A row is claimed before the act, and gets the answer in the act's own transaction: either both are there or neither, so
that a crash leaves nothing undecided. An act that fails gives its row back. No row holds a key or a body: only the
digest of a key with its caller, a MAC of the request, and the answer sealed under a master key.
"""

import hashlib
import hmac
from typing import Final
from uuid import UUID

import msgspec
from django.db import models

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.crypto.master_keys import (
    MasterKeyMissingError,
    mac,
    newest_master_key_id,
    register_purpose,
)
from ironauth.infrastructure.crypto.sealing import SealBrokenError, seal, unseal
from ironauth.infrastructure.models import IdempotencyKey

#: Seconds an answer is repeated for.
KEEP_S: Final = 86_400
#: Seconds after which a claim without an answer is free: its process has died. A slower one is rolled back.
LEASE_S: Final = 60
_REQUEST: Final = register_purpose("idempotency request")
_ANSWER: Final = register_purpose("idempotency answer")


class IdempotencyKeyReused(DomainError):
    """The key stands for another request of the same caller."""

    status = 422
    code = "idempotency_key_reused"
    title = "Idempotency key reused"
    detail = "This Idempotency-Key was used for another request: send a new key with a new request."


class IdempotencyInFlight(DomainError):
    """The first request with the key has no answer yet."""

    status = 409
    code = "idempotency_in_flight"
    title = "Request in flight"
    detail = "The first request with this Idempotency-Key is not finished: ask again after Retry-After seconds."
    default_retry_after_s = 1


class AnswerNotRepeated(DomainError):
    """The first request was carried out, and its answer is not kept: it had a secret that is shown once."""

    status = 409
    code = "idempotency_answer_not_repeated"
    title = "Answer not repeated"
    detail = (
        "The request was carried out and is not done again. Its answer had a secret that is shown once and is stored "
        "nowhere: read what is at Location, and have another secret made."
    )


class Answer(msgspec.Struct, frozen=True):
    """What is repeated. ``body`` is None where it had a secret; ``location`` is "" for none."""

    status: int
    location: str
    body: bytes | None


class Keyed(msgspec.Struct, frozen=True):
    """One request with a key.

    Args:
        caller: Who asks; keys of different callers never meet.
        key: As the caller has sent it.
        request: What the key stands for: method, path and body.
        claim: Unique to this try.
    """

    caller: str
    key: str
    request: bytes
    claim: UUID

    @property
    def row(self) -> str:
        """The name of its row."""
        return hashlib.sha256(f"{self.caller}\0{self.key}".encode()).hexdigest()

    def fingerprint(self, master_key_id: str) -> bytes:
        """Return the MAC of the request. A body may have a password: nobody can try some without both keys.

        Args:
            master_key_id: Of the row.

        Raises:
            MasterKeyMissingError: The master key is gone.
        """
        return mac(_REQUEST, self.request, master_key_id, secret=self.key.encode())


def claim(keyed: Keyed) -> Answer | None:
    """Begin the request, or return the answer that it had before. A unit of work; three queries at most.

    Args:
        keyed: The request.

    Raises:
        IdempotencyInFlight: The first one is not finished.
        IdempotencyKeyReused: The key stands for another request.
        AnswerNotRepeated: It was carried out, and the answer is not kept.
    """
    now, master_key_id = int(clock.unix()), newest_master_key_id()
    begun = {
        "claim": keyed.claim,
        "fingerprint": keyed.fingerprint(master_key_id),
        "master_key_id": master_key_id,
        "answer": None,
        "expires_at": now + LEASE_S,
    }
    rows = IdempotencyKey.objects.filter(pk=keyed.row)
    IdempotencyKey.objects.bulk_create([IdempotencyKey(key=keyed.row, **begun)], ignore_conflicts=True)
    row = rows.select_for_update().first()
    if row is None:  # given back in this very moment
        raise IdempotencyInFlight
    if row.claim == keyed.claim:
        return None
    if row.expires_at <= now:
        rows.update(**begun)
        return None
    return _known(row, keyed)


def record(keyed: Keyed, answer: Answer) -> None:
    """Keep the answer, in the transaction of the act. One query.

    Args:
        keyed: The request.
        answer: Its answer.

    Raises:
        IdempotencyInFlight: Another try has taken the claim over: this one is to be rolled back.
    """
    master_key_id, sealed = seal(msgspec.msgpack.encode(answer), _ANSWER, keyed.row.encode())
    fingerprint = keyed.fingerprint(master_key_id)
    kept = {"answer": sealed, "master_key_id": master_key_id, "fingerprint": fingerprint}
    if not _mine(keyed).update(expires_at=int(clock.unix()) + KEEP_S, **kept):
        raise IdempotencyInFlight


def give_back(keyed: Keyed) -> None:
    """Forget a request that was not carried out, so that it can be sent again. A unit of work; one query.

    Args:
        keyed: The request.
    """
    _mine(keyed).delete()


def purge(*, batch: int) -> int:
    """Delete at most ``batch`` rows that count no more; return how many. Two queries."""
    over = IdempotencyKey.objects.filter(expires_at__lte=int(clock.unix()))
    keys = list(over.order_by("expires_at").values_list("pk", flat=True)[:batch])
    return over.filter(pk__in=keys).delete()[0] if keys else 0  # asked again: one may have been claimed meanwhile


def _mine(keyed: Keyed) -> "models.QuerySet[IdempotencyKey]":
    return IdempotencyKey.objects.filter(pk=keyed.row, claim=keyed.claim, answer=None)


def _known(row: IdempotencyKey, keyed: Keyed) -> Answer:
    """Return the answer of the row; raises as ``claim`` does."""
    try:
        if not hmac.compare_digest(bytes(row.fingerprint), keyed.fingerprint(row.master_key_id)):
            raise IdempotencyKeyReused
        if row.answer is None:
            raise IdempotencyInFlight
        answer = unseal(row.master_key_id, bytes(row.answer), _ANSWER, keyed.row.encode())
    except (MasterKeyMissingError, SealBrokenError) as error:  # the master key was taken out within the day
        raise (IdempotencyInFlight if row.answer is None else AnswerNotRepeated) from error
    found = msgspec.msgpack.decode(answer, type=Answer)
    if found.body is None:
        raise AnswerNotRepeated(headers={"Location": found.location} if found.location else None)
    return found
