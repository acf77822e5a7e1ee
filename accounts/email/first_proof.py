"""What becomes of all that hangs on an account when its address is proved for the first time.

Until then a stranger may have made the account and used it (Sudhodanan & Paverd 2022, "Pre-hijacked accounts"). Who
reads the mail of the address starts clean: nothing lets in that was set up before. Each application says once, for each
of its models that knows a person, what happens to the rows. A test walks all models and fails for one that is missing.
"""

import enum
from collections.abc import Iterable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple

from django.contrib.admin.models import LogEntry
from django.db.models import Model, QuerySet, UUIDField

from accounts.audit.models import AuditEvent
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.privacy.models import PendingDeletion
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledDelete, Param


class Fate(enum.StrEnum):
    """What happens to the rows of a model."""

    REMOVED = "removed"  # they are deleted
    ENDED = "ended"  # they stay, and the new password makes them worth nothing
    KEPT = "kept"  # they open nothing


class Rule(NamedTuple):
    """What happens to the rows of a model, and why."""

    fate: Fate
    because: str


_OF_USER: Final = Param("user_id", UUIDField())
_rules: dict[type[Model], Rule] = {}


def register(model: type[Model], fate: Fate, because: str) -> None:
    """Add a model and what happens to its rows; one to be ``REMOVED`` has the column ``user_id``.

    Args:
        model: The model; each has one rule.
        fate: What happens to the rows of an account.
        because: The reason, which a test reads out when a model has none.

    Raises:
        ValueError: The model has a rule already.
    """
    if model in _rules:
        raise ValueError(f"There is a rule for {model._meta.label} already: change that one.")  # noqa: SLF001 - documented by Django
    _rules[model] = Rule(fate, because)
    _removals.cache_clear()


def rules() -> Mapping[type[Model], Rule]:
    """Return every model that has a rule, with the rule."""
    return MappingProxyType(_rules)


def start_clean(user: User, *, encoded: str, fields: Iterable[str] = ()) -> tuple[str, ...]:
    """Store that the owner of the address has come, whose password is ``encoded``; return the factors that went.

    The new password ends every session and forgets every token that was mailed. Fourteen queries.

    Args:
        user: The account, locked in this transaction.
        encoded: A hash made just now, or an unusable password.
        fields: Other fields of the user that were changed, to be written with these.
    """
    methods = factors.methods_of(user.pk)
    user.password, user.must_change_password, user.email_verified_at = encoded, False, clock.now()
    user_queries.change(user, {"password", "must_change_password", "email_verified_at", *fields})
    for delete in _removals():
        delete.run(user_id=user.pk)
    throttling.forgive_second_factor(user.pk)
    throttling.forget_devices(email=user.email)
    return methods


def details(removed: tuple[str, ...]) -> dict[str, object]:
    """Return what the trail says of the factors that went; nothing where there were none."""
    return {"factors_removed": list(removed)} if removed else {}


@cache
def _removals() -> tuple[CompiledDelete, ...]:
    """Return what deletes the rows of every model that is to be removed."""
    doomed = [model for model, rule in _rules.items() if rule.fate is Fate.REMOVED]
    return tuple(CompiledDelete(partial(_rows_of, model)) for model in doomed)


def _rows_of(model: type[Model]) -> QuerySet[Model]:
    return QuerySet(model).filter(user_id=_OF_USER)


for _factor in factors.FACTORS:
    register(_factor.model, Fate.REMOVED, _factor.removed_because)
register(KeptDevice, Fate.REMOVED, "A stranger proved a factor of their own on it.")
register(EmailToken, Fate.REMOVED, "What was mailed before opens nothing now, a change of the address above all.")
register(OutgoingMail, Fate.KEPT, "It goes to the owner's mailbox; one with a token goes with the token.")
register(PendingDeletion, Fate.KEPT, "It opens nothing, and only an account that is being deleted has one.")
register(AuditEvent, Fate.KEPT, "The trail says what happened before, too.")
register(LogEntry, Fate.KEPT, "It is the trail of the admin, by staff.")
register(User.groups.through, Fate.KEPT, "Staff give roles to the person of this address.")
register(User.user_permissions.through, Fate.KEPT, "Staff give permissions to the person of this address.")
