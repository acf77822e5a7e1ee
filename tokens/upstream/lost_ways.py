"""What a lost way in at a provider does: who switching it off leaves without one, and the end of what began there."""

from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from accounts.access import ways_in
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.queries import WAY_IN
from accounts.users import queries as user_queries
from accounts.users.models import User
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import BY_UPSTREAM
from tokens.upstream.models import UpstreamSession

#: People in one transaction: some 20 ms, so that other writers get their turn.
FEW: Final = 20


def identity_gone(*, kind: str, user_id: UUID, row: Any, actor_id: UUID, session_id: UUID | None, **_: object) -> None:
    """End the sessions that began with an identity that is removed; a receiver of ``ways_in.removed``.

    Args:
        kind: Of the way in that is removed; another one than an identity ends nothing here.
        user_id: Whose it was.
        row: The identity, with its provider.
        actor_id: Who has removed it.
        session_id: The person's session that stays; None where staff have.
        **_: What else the signal brings.
    """
    if kind == WAY_IN:
        details = {"reason": "identity_unlinked", "provider": row.provider.slug}
        began = _began_with(user_id, row.provider_id)
        session_ends.end_matching(began, user_id=user_id, actor_id=actor_id, keep=session_id, details=details)


def warning(provider: UpstreamProvider) -> str:
    """Return how many people could not sign in any more without a provider, in words; "" where nobody is. 2 queries."""
    people = User.objects.filter(is_active=True, identities__provider=provider)
    left = ways_in.stranded(people, kind=WAY_IN, gone=Q(provider=provider))
    count = left.count()
    if not count:
        return ""
    lost = ways_in.unreachable(left).count()
    who = "1 person has" if count == 1 else f"{count} people have"
    helped = "They can" if not lost else f"{count - lost} can"
    rest = f"; {lost} cannot, because their address is not verified" if lost else ""
    return (
        f"{who} no other way to sign in, and no password. {helped} ask for a new password by mail{rest}. Tick this to "
        "go on."
    )


def end_after_commit(*, provider_id: UUID, slug: str, actor_id: UUID | None) -> None:
    """End the sessions that began with a provider, once it is switched off for everybody to see.

    Before that a sign-in could open one after the others were ended. In short transactions, each with its events: after
    an interruption the provider is saved again.

    Args:
        provider_id: The provider.
        slug: Its short name, for the trail.
        actor_id: Who has switched it off; None for a command.
    """
    transaction.on_commit(partial(_end, provider_id, slug, actor_id))


def _end(provider_id: UUID, slug: str, actor_id: UUID | None) -> None:
    people = Identity.objects.filter(provider_id=provider_id).order_by("user_id").values_list("user_id", flat=True)
    ids = list(people)
    details = {"reason": "provider_switched_off", "provider": slug}
    for part in (ids[at : at + FEW] for at in range(0, len(ids), FEW)):
        with transaction.atomic():
            for user_id in part:  # in one order, so that two of these never wait in a circle
                user_queries.lock(user_id)  # a sign-in that was judged before is waited for, or finds it switched off
                began = _began_with(user_id, provider_id)
                session_ends.end_matching(began, user_id=user_id, actor_id=actor_id, keep=None, details=details)


def _began_with(user_id: UUID, provider_id: UUID) -> Q:
    """Return what is true of a person's sessions that began at a provider.

    Which provider it was, rows tell only of those that announce who signs out; any other may have been this one.
    """
    issuer = UpstreamProvider.objects.filter(pk=provider_id).values("issuer")  # another provider may have the same
    elsewhere = UpstreamSession.objects.filter(session__user_id=user_id).exclude(provider__issuer__in=issuer)
    known = elsewhere.values("session_id")
    here = Q(amr=BY_UPSTREAM) | Q(amr__startswith=f"{BY_UPSTREAM} ")
    return here & ~Q(pk__in=known) & ~Q(parent_id__in=known)
