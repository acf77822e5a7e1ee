"""Name for each user of this site who they are at the server, from the lines that ``export_users`` writes there."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction

from ironauth_client.django.models import Identity, OpenSession


@dataclass
class Adoption:
    """What became of the people in a file; a conflict is a person, the user they are, and the one they should be."""

    adopted: int = 0
    known: int = 0
    strangers: int = 0
    replaced: int = 0
    conflicts: list[tuple[str, Any, Any]] = field(default_factory=list)


def adopt(lines: Iterable[str], *, issuer: str, source: str, replace: bool = False) -> Adoption:
    """Store an identity for each person who came from this site; all of them or none.

    Args:
        lines: A JSON object each, with the person's id at the server and, in ``imported``, the key in this site.
        issuer: The server's issuer, as it writes it in tokens.
        source: The name under which the people were imported there (``--from``).
        replace: Whether a person who is another user here becomes the one that they were imported as. Their open
            sign-ins end; the other user stays.

    Raises:
        ValueError: A line is none of ``export_users``; the message has its number.
    """
    done = Adoption()
    with transaction.atomic():
        for number, line in enumerate(lines, start=1):
            try:
                person = json.loads(line)
                subject, imported = str(person["external_id"]), person.get("imported") or {}
                user = _user(imported["external_id"]) if imported.get("source") == source else None
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"Line {number} is none that export_users writes.") from error
            if user is None:
                done.strangers += 1
            else:
                _adopt(done, user, {"issuer": issuer, "subject": subject}, replace=replace)
    return done


def left_over(issuer: str) -> Any:
    """Return the keys of the users who are nobody at the server, the oldest first."""
    named = Identity.objects.filter(issuer=issuer).values("user")
    users: Any = get_user_model()
    return users.objects.exclude(pk__in=named).order_by("pk").values_list("pk", flat=True)


def _user(key: object) -> Any:
    """Return the user with this key, None without one."""
    users: Any = get_user_model()
    try:
        return users.objects.filter(pk=key).first()
    except (ValueError, ValidationError):  # no key that this table can have
        return None


def _adopt(done: Adoption, user: Any, named: Mapping[str, str], *, replace: bool) -> None:
    identity, new = Identity.objects.select_related("user").get_or_create(**named, defaults={"user": user})
    if new:
        done.adopted += 1
    elif identity.user == user:
        done.known += 1
    elif replace:
        OpenSession.objects.filter(identity=identity).delete()
        Identity.objects.filter(pk=identity.pk).update(user=user)
        done.replaced += 1
    else:
        done.conflicts.append((named["subject"], identity.user.pk, user.pk))
