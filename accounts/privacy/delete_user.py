"""Deleting a user as Django's ``delete()`` does, its statements compiled once: half of it was compiling them."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models.deletion import CASCADE, DB_CASCADE, DO_NOTHING, Collector, get_candidate_relations_to_delete
from django.db.models.signals import post_delete, pre_delete

from accounts.users.models import User
from ironauth.infrastructure.db.batch import batch
from ironauth.infrastructure.db.compiled import CompiledBatch, CompiledDelete
from ironauth.infrastructure.db.compiled_sql import Param

_ID: Final = Param("id", models.UUIDField())
_DELETE: Final = CompiledDelete(lambda: User.objects.filter(pk=_ID))


def delete(user: User, *, record: Callable[[], None] = lambda: None) -> None:
    """Delete a user and what hangs on them, telling every signal's receivers. Call it inside a transaction.

    One query for each table whose rows go with a user, unless the database cascades to them itself, and the user; on
    PostgreSQL one for them all, and for what ``record`` inserts, the event of it. What the receivers do comes on top.
    Receivers of the tables' own signals have to be connected at start-up.
    """
    rows = _dependents()
    if rows is None:
        user.delete()
        record()
        return
    about: dict[str, Any] = {"instance": user, "using": DEFAULT_DB_ALIAS, "origin": user}
    with batch():
        pre_delete.send(sender=User, **about)
        record()
        rows.run(id=user.pk)
    post_delete.send(sender=User, **about)


@cache
def _dependents() -> CompiledBatch | None:
    """Return what deletes a user and what goes with them; None when Django has to look at each row."""
    collector = Collector(using=DEFAULT_DB_ALIAS)
    found = []
    meta: Any = User._meta  # noqa: SLF001 - documented by Django
    relations: Any = get_candidate_relations_to_delete(meta)
    for relation in relations:
        foreign_key = relation.field
        on_delete = foreign_key.remote_field.on_delete
        if on_delete in (DB_CASCADE, DO_NOTHING):
            continue
        hanging = relation.related_model._base_manager.filter(**{foreign_key.attname: _ID})  # noqa: SLF001 - as above
        if on_delete is not CASCADE or not collector.can_fast_delete(hanging, from_field=foreign_key):
            return None
        found.append(CompiledDelete(hanging.all))
    return CompiledBatch(*found, _DELETE)
