"""What becomes of all that hangs on an account when its address is proved for the first time.

Until then a stranger may have made the account and used it (Sudhodanan & Paverd 2022, "Pre-hijacked accounts"). Who
reads the mail of the address starts clean: nothing lets in that was set up before, and nothing that a stranger said of
themselves is told to applications. Each application says once, for each of its models that knows a person, what happens
to the rows; ``COLUMNS`` says it of the user's own row. A test walks all models and columns, and fails for one that is
missing.
"""

import enum
from collections.abc import Iterable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple

from django.contrib.admin.models import LogEntry
from django.contrib.auth.hashers import is_password_usable
from django.db.models import Model, QuerySet, UUIDField

from accounts.audit.models import AuditEvent
from accounts.audit.recording import Outcome
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
    """What happens to the rows of a model, or to a column of the user."""

    REMOVED = "removed"  # they are deleted; a column of text is emptied, where somebody could have set it
    ENDED = "ended"  # they stay, and the new password makes them worth nothing; a column is written anew
    KEPT = "kept"  # they open nothing


class Rule(NamedTuple):
    """What happens to the rows of a model, and why."""

    fate: Fate
    because: str


_SAID: Final = Rule(Fate.REMOVED, "A stranger said it of themselves, and applications are told it.")
_SINCE: Final = Rule(Fate.KEPT, "It says when the account was made and used, also of who came first.")
_BY_STAFF: Final = Rule(Fate.KEPT, "Staff alone set it.")
_TERMS: Final = Rule(Fate.KEPT, "It says what was accepted when the account was made; nobody is asked anew.")
#: What happens to each column of the user's own row.
COLUMNS: Final[Mapping[str, Rule]] = {
    "id": Rule(Fate.KEPT, "It is the account."),
    "email": Rule(Fate.KEPT, "It is what the owner has proved."),
    "email_key": Rule(Fate.KEPT, "It follows the address."),
    "email_verified_at": Rule(Fate.ENDED, "It is the proof."),
    "password": Rule(Fate.ENDED, "The owner's takes its place."),
    "must_change_password": Rule(Fate.ENDED, "The password was changed."),
    "password_flagged_at": Rule(Fate.ENDED, "A new password clears it."),
    "session_epoch": Rule(Fate.ENDED, "A new password raises it."),
    "is_active": _BY_STAFF,
    "is_staff": _BY_STAFF,
    "is_superuser": _BY_STAFF,
    "name": _SAID,
    "given_name": _SAID,
    "family_name": _SAID,
    "preferred_username": _SAID,
    "zoneinfo": _SAID,
    "language": _SAID,
    "terms_version": _TERMS,
    "terms_accepted_at": _TERMS,
    "last_login": _SINCE,
    "created_at": _SINCE,
    "updated_at": _SINCE,
}
_SAID_COLUMNS: Final = tuple(name for name, rule in COLUMNS.items() if rule.fate is Fate.REMOVED)
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

    The new password ends every session and forgets every token that was mailed. Fourteen queries, and one more where
    nothing of the account itself tells that somebody was in it.

    Args:
        user: The account, locked in this transaction.
        encoded: A hash made just now, or an unusable password.
        fields: Other fields of the user that were changed, to be written with these.
    """
    methods = factors.methods_of(user.pk)
    removed = [doomed for doomed, delete in _removals().items() if delete.run(user_id=user.pk)]
    emptied = set(_SAID_COLUMNS).difference(fields) if _was_used(user, removed) else set()
    for name in emptied:
        setattr(user, name, "")
    user.password, user.must_change_password, user.email_verified_at = encoded, False, clock.now()
    user_queries.change(user, {"password", "must_change_password", "email_verified_at", *fields, *emptied})
    throttling.forgive_second_factor(user.pk)
    throttling.forget_devices(email=user.email)
    return methods


def details(removed: tuple[str, ...]) -> dict[str, object]:
    """Return what the trail says of the factors that went; nothing where there were none."""
    return {"factors_removed": list(removed)} if removed else {}


def _was_used(user: User, removed: Iterable[type[Model]]) -> bool:
    """Tell whether somebody may have said of themselves what the row says: they had a way in, or have acted.

    What staff or an import gave an account that nobody could get into stays: that was no stranger. ``removed`` are the
    models that had rows; a token that was mailed is no way in.
    """
    if is_password_usable(user.password) or any(model is not EmailToken for model in removed):
        return True
    return AuditEvent.objects.filter(actor_id=user.pk, outcome=Outcome.SUCCESS).exists()


@cache
def _removals() -> Mapping[type[Model], CompiledDelete]:
    """Return what deletes the rows of every model that is to be removed."""
    doomed = [model for model, rule in _rules.items() if rule.fate is Fate.REMOVED]
    return {model: CompiledDelete(partial(_rows_of, model)) for model in doomed}


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
