"""How the lists of the admin find people: any part of the address or of the names, word by word."""

from django.db.models import Q, QuerySet

from accounts import email_address as emails
from accounts import names, profile
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User


def people(queryset: QuerySet[User], term: str) -> QuerySet[User]:
    """Return the people of ``queryset`` whose folded address or names have every word of ``term``; one walk.

    The address of somebody who is being deleted is the one they had.

    Args:
        queryset: The people to look among.
        term: As typed.
    """
    for word in names.normalise(term).split():
        leaving = PendingDeletion.objects.filter(email__has_part=word)  # few: looked through once, not joined
        found = Q(email_key__contains=emails.fold(word)) | profile.named(word)
        queryset = queryset.filter(found | Q(pk__in=leaving.values("pk")))
    return queryset
