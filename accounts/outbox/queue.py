"""The queue of messages as units of work: written with the act that causes a message, read by whatever delivers.

A worker takes a message by a lease: one conditional UPDATE, which exactly one of several workers wins on any database.
Taking a message raises its number of tries, and that number proves the lease: a worker that lost it changes nothing.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import batched
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import F, Q

from accounts.audit import recording as audit
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.compiled import CompiledInsert, CompiledSelect, Param, given_row
from ironauth.infrastructure.db.outbox import LEASE_S, MAX_DUE, is_too_old, retry_after
from ironauth.infrastructure.http import language

FIRST_RETRY_S: Final = 15  # seconds after the first failure, doubled after each further one
FAILED_KEEP_S: Final = 30 * 86_400  # seconds a message given up stays for staff to see

_NOW: Final = Param("now", models.DateTimeField())
_INSERT: Final = CompiledInsert(lambda: given_row(OutgoingMail))
_DUE: Final = CompiledSelect(lambda: _due_at(_NOW).order_by("next_try_at").values_list("id")[:MAX_DUE])
BATCH: Final = 500  # messages in one statement; SQLite as first shipped takes 999 variables


class Claimed(NamedTuple):
    """A message this worker may send until its lease ends, with all that its templates need."""

    id: uuid.UUID
    kind: str
    recipient: str
    tries: int
    created_at: datetime
    facts: dict[str, Any]
    token_row: EmailToken | None
    user_id: uuid.UUID | None = None

    @property
    def token(self) -> str | None:
        """What its link brings; made where the message is, so that a lost master key fails this message alone."""
        return email_tokens.text(self.token_row) if self.token_row is not None else None

    @property
    def minutes(self) -> int:
        """How long its link and its code work."""
        purpose = self.token_row.purpose if self.token_row is not None else ""
        return int(email_tokens.life(purpose).total_seconds() // 60)

    @property
    def code(self) -> str | None:
        """The six digits that a page has asked for; None where no page waits for them."""
        row = self.token_row
        return email_tokens.code(row) if row is not None and row.code_tries is not None else None


def enqueue(
    kind: Kind,
    *,
    recipient: str,
    user_id: uuid.UUID | None = None,
    token_id: uuid.UUID | None = None,
    facts: Mapping[str, Any] | None = None,
) -> uuid.UUID:
    """Queue a message with the current transaction; return its id. One query.

    Args:
        kind: What it is about.
        recipient: The address; "" for a row that only has to cost what a message costs.
        user_id: Whose account it is about.
        token_id: The token its link brings.
        facts: For the templates, and ``language``, where it is not the caller's. Nothing secret, and nothing long that
            a stranger chose: it would be sent in this product's name.
    """
    mail_id, now = new_id(), clock.now()
    _INSERT.run(
        id=mail_id,
        kind=kind.value,
        recipient=recipient,
        user_id=user_id,
        token_id=token_id,
        facts={**_language(), **(facts or {})},
        created_at=now,
        next_try_at=now,
        tries=0,
        claimed_until=None,
        failed_at=None,
    )
    return mail_id


def _language() -> dict[str, str]:
    """Return the language the message is written in, as a fact; none for English.

    One that the person has chosen takes its place when the message is claimed.
    """
    code = language.current()
    return {"language": code} if code != settings.LANGUAGE_CODE else {}


def due() -> list[uuid.UUID]:
    """Return the messages whose turn has come and that nobody has taken, the longest waiting first. One query."""
    return [mail_id for (mail_id,) in _DUE.rows(now=clock.now())]


def claim(mail_id: uuid.UUID) -> Claimed | None:
    """Take a message for ``LEASE_S`` seconds; None when it is gone, taken, or not due. Three queries at most.

    A row without recipient is deleted instead, and its token with it.
    """
    now = clock.now()
    mine = _due_at(now).filter(pk=mail_id)
    mail = mine.select_related("token").annotate(own_language=F("user__language")).first()
    if mail is None:
        return None
    if not mail.recipient:
        EmailToken.objects.filter(pk__in=[mail.token_id])._raw_delete(DEFAULT_DB_ALIAS)  # noqa: SLF001 - no signals, no loading
        _delete(mail_id)
        return None
    # The token is locked before the message, as by everything that replaces a token: with one order nothing waits
    # without end. When another worker wins below, it has renewed the token just now too.
    if mail.token is not None:
        email_tokens.renew(mail.token)
    if not mine.update(claimed_until=now + timedelta(seconds=LEASE_S), tries=F("tries") + 1):
        return None
    tries = mail.tries + 1
    facts = {**mail.facts, **({"language": mail.own_language} if mail.own_language else {})}
    return Claimed(mail.pk, mail.kind, mail.recipient, tries, mail.created_at, facts, mail.token, mail.user_id)


def keep(mail: Claimed) -> bool:
    """Begin the lease anew; return False when another worker has it, or the message is gone. One query."""
    until = clock.now() + timedelta(seconds=LEASE_S)
    return OutgoingMail.objects.filter(pk=mail.id, tries=mail.tries).update(claimed_until=until) > 0


def sent(mail: Claimed) -> None:
    """Forget a message the mail server has accepted, no matter who has its lease by now. One query."""
    _delete(mail.id)


def failed(mail: Claimed, *, for_good: bool = False) -> bool:
    """Let a message that was not accepted wait for its next turn; return True when it is given up. One query.

    It is given up when ``for_good`` is true, or a day after it was queued. That is recorded, by one more query. A
    worker whose lease was lost changes nothing.

    Args:
        mail: The message as it was claimed; its number of tries shows whether the lease still holds.
        for_good: Whether the mail server's refusal is a permanent one.
    """
    now = clock.now()
    mine = OutgoingMail.objects.filter(pk=mail.id, tries=mail.tries)
    if for_good or is_too_old(mail.created_at, now):
        given_up = mine.update(claimed_until=None, failed_at=now) > 0
        if given_up:
            details = {"mail": str(mail.id), "kind": mail.kind}
            audit.record(
                audit.Event.MAIL_GIVEN_UP, outcome=audit.Outcome.FAILURE, user_id=mail.user_id, details=details
            )
        return given_up
    mine.update(claimed_until=None, next_try_at=now + retry_after(mail.tries, first_s=FIRST_RETRY_S))
    return False


def try_again(mail_ids: Sequence[uuid.UUID], *, actor_id: uuid.UUID) -> int:
    """Have these messages sent at the next delivery; return how many, without those being sent right now.

    A message that was given up has one more try, and is given up again when that fails. Two queries for each ``BATCH``
    messages, and one for each message.

    Args:
        mail_ids: The messages that were chosen.
        actor_id: The member of staff, for the trail.
    """
    again = 0
    for batch in batched(mail_ids, BATCH):
        now = clock.now()
        free = OutgoingMail.objects.filter(Q(claimed_until=None) | Q(claimed_until__lte=now), pk__in=batch)
        chosen = list(free.select_for_update().order_by("pk").values_list("pk", "user_id", "kind"))
        again += OutgoingMail.objects.filter(pk__in=[mail_id for mail_id, _, _ in chosen]).update(
            next_try_at=now, failed_at=None, claimed_until=None
        )
        for mail_id, user_id, kind in chosen:
            details = {"mail": str(mail_id), "kind": kind}
            audit.record(audit.Event.MAIL_RETRIED, actor_id=actor_id, user_id=user_id, details=details)
    return again


def purge_failed(*, batch: int) -> int:
    """Delete at most ``batch`` messages given up more than 30 days ago; return how many. Two queries."""
    before = clock.now() - timedelta(seconds=FAILED_KEEP_S)
    ids = list(OutgoingMail.objects.filter(failed_at__lt=before).order_by("pk").values_list("pk", flat=True)[:batch])
    return OutgoingMail.objects.filter(pk__in=ids)._raw_delete(DEFAULT_DB_ALIAS) if ids else 0  # noqa: SLF001 - as above


def _due_at(now: Any) -> "models.QuerySet[OutgoingMail]":
    """Return the messages that may be taken at ``now``."""
    free = Q(claimed_until=None) | Q(claimed_until__lte=now)
    return OutgoingMail.objects.filter(free, failed_at=None, next_try_at__lte=now)


def _delete(mail_id: uuid.UUID) -> None:
    OutgoingMail.objects.filter(pk=mail_id)._raw_delete(DEFAULT_DB_ALIAS)  # noqa: SLF001 - nothing hangs on a message
