"""How the lists of the admin find people: any part of the address or of the names, word by word."""

from typing import Final

from django.db import connections
from django.db.models import Q, QuerySet

from accounts import search
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User

#: People being deleted that a condition names one by one. With more of them, each row is asked: many are found soon.
MOST_NAMED: Final = 1_000


def people(queryset: QuerySet[User], term: str) -> QuerySet[User]:
    """Return the people of ``queryset`` whose address or names have every word of ``term``.

    The address of somebody who is being deleted is the one they had. On Postgres one query a word looks for those,
    because an index finds people by one condition over their row alone.

    Args:
        queryset: The people to look among.
        term: As typed.
    """
    for word in search.words(term):
        queryset = queryset.filter(search.has(word) | _leaving(word, queryset.db))
    return queryset


def _leaving(word: str, alias: str) -> Q:
    """Return the condition that a person is being deleted and had an address with ``word``."""
    leaving = PendingDeletion.objects.filter(search.has(word, "email")).order_by()
    if connections[alias].vendor == "postgresql":
        named = list(leaving.using(alias).values_list("pk", flat=True)[: MOST_NAMED + 1])
        if len(named) <= MOST_NAMED:
            return Q(pk__in=named) if named else Q()
    return Q(pk__in=leaving.values("pk"))
