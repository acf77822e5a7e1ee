"""Units of work on what people have allowed clients: ask for it, remember it, list it, take it back."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from accounts.access.rights import rights_of, target_of
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant
from tokens.protocol import scope_set, scope_text
from tokens.resources import identifiers
from tokens.resources.queries import Named
from tokens.rights import DELETE_CONSENTS, VIEW_CONSENTS
from tokens.sessions import units as sessions
from tokens.sessions.models import Session

Reason = Session.RevokeReason
_NO_USER: Final = "There is no user with this id."


class Allowed(NamedTuple):
    """What a person has allowed a client: a scope at this server's own audience, and scopes by API."""

    scope: str = ""
    resources: Mapping[str, str] = MappingProxyType({})

    def covers(self, scope: str, resources: Sequence[Named]) -> bool:
        """Return whether nothing is asked for that was not allowed, at any of these APIs.

        Args:
            scope: What a request asks for.
            resources: The APIs that it names; none for this server's own audience.
        """
        return self.has(given(scope, resources))

    def has(self, other: "Allowed") -> bool:
        """Return whether all of another one is in it.

        Args:
            other: What is asked for, or allowed.
        """
        mine = {name: scope_set(text) for name, text in self.resources.items()}
        return scope_set(other.scope) <= scope_set(self.scope) and all(
            name in mine and scope_set(text) <= mine[name] for name, text in other.resources.items()
        )


def given(scope: str, resources: Sequence[Named]) -> Allowed:
    """Return what a person allows by saying yes to a request.

    Args:
        scope: What it asks for.
        resources: The APIs that it names; none for this server's own audience.
    """
    if not resources:
        return Allowed(scope)
    by_name = {one.identifier: one.scope for one in resources}
    return Allowed(by_name.pop(identifiers.own(), ""), by_name)


def allowed(*, user_id: UUID, client_id: UUID) -> Allowed:
    """Return what the person has allowed the client, nothing if they were never asked. 1 query.

    Args:
        user_id: The person.
        client_id: The client's primary key.
    """
    found = Consent.objects.filter(user_id=user_id, client_id=client_id).values_list("scope", "resources").first()
    return Allowed(*found) if found is not None else Allowed()


def remember(
    *,
    user_id: UUID,
    client_id: UUID,
    given: Allowed,
    session_id: UUID,
    details: Sequence[str] = (),
    again: bool = False,
) -> None:
    """Note that the person has just allowed the client this, in addition to what they have allowed before.

    3 queries, and a savepoint for the first time. Of two at once, in two tabs, one waits for the other: the second adds
    to what the first has written.

    Args:
        user_id: The person.
        client_id: The client.
        given: What was allowed.
        session_id: The SSO session it is done in.
        details: The types of authorization details that were allowed; they are asked for each time.
        again: Whether the same form has allowed it just before: that is one event, unless it was taken back meanwhile.
    """
    now = clock.now()
    row, new = Consent.objects.select_for_update().get_or_create(
        user_id=user_id,
        client_id=client_id,
        defaults={"scope": given.scope, "resources": dict(given.resources), "created_at": now, "updated_at": now},
    )
    told_before = again and not new and Allowed(row.scope, row.resources).has(given)
    if not new:
        row.scope = _with(row.scope, given.scope)
        row.resources = {**row.resources, **{n: _with(row.resources.get(n, ""), s) for n, s in given.resources.items()}}
        row.updated_at = now
        row.save(update_fields=["scope", "resources", "updated_at"])
    if told_before:
        return
    scopes = scope_set(" ".join((given.scope, *given.resources.values())))
    told: dict[str, object] = {"client": str(client_id), "scope": sorted(scopes)}
    if given.resources:
        told["resources"] = list(given.resources)
    if details:
        told["authorization_details"] = list(dict.fromkeys(details))
    audit.record(Event.CONSENT_GIVEN, actor_id=user_id, user_id=user_id, session_id=session_id, details=told)


def _with(before: str, more: str) -> str:
    return scope_text(scope_set(before) | scope_set(more))


def of_person(user_id: UUID) -> list[Consent]:
    """Return a person's consents with their clients, the newest first. 1 query."""
    return list(Consent.objects.filter(user_id=user_id).select_related("client").order_by("-created_at", "-id"))


def revoke(*, user_id: UUID, client_id: UUID) -> bool:
    """Take back what a person allowed a client, by themselves; False when there is nothing of that kind.

    Args:
        user_id: The person.
        client_id: The client's primary key.
    """
    found = Consent.objects.filter(user_id=user_id, client_id=client_id).select_related("client").first()
    if found is None:
        return False
    revoke_each([found], actor_id=user_id, reason=Reason.ENDED_BY_USER)
    return True


def of_person_for_staff(*, actor_id: UUID, user_id: UUID) -> list[Consent]:
    """Return the consents of somebody else.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: Without ``tokens.view_consent``.
        NotFound: There is no such user.
    """
    rights_of(actor_id).require(VIEW_CONSENTS)
    found = of_person(user_id)
    if not found and not User.objects.filter(pk=user_id).exists():
        raise NotFound(_NO_USER)
    return found


def revoke_by_staff(*, actor_id: UUID, user_id: UUID, client_id: UUID) -> None:
    """Take back what somebody else allowed a client.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        client_id: The client's primary key.

    Raises:
        PermissionDenied: Without ``tokens.delete_consent``, and for a superuser where the caller is none.
        NotFound: There is no such user, or no such consent of theirs.
    """
    rights, user = target_of(actor_id, user_id, DELETE_CONSENTS)
    if user is None:
        raise NotFound(_NO_USER)
    rights.require_above(user)
    found = Consent.objects.filter(user_id=user_id, client_id=client_id).select_related("client").first()
    if found is None:
        raise NotFound("This person has allowed no such application.")
    revoke_each([found], actor_id=actor_id, reason=Reason.ENDED_BY_STAFF)


@transaction.atomic
def revoke_each(consents: Sequence[Consent], *, actor_id: UUID, reason: Reason) -> None:
    """Take back consents, read with their clients: what the clients hold of these people ends, codes under way too.

    Args:
        consents: Of any people.
        actor_id: Who does it, for the trail.
        reason: What is stored with the sessions that end.
    """
    for consent in consents:
        whose = {"user_id": consent.user_id, "client_id": consent.client_id}
        if not Consent.objects.filter(pk=consent.pk).delete()[0]:
            continue  # taken back meanwhile
        for kind in (AuthorizationCode, DeviceGrant):
            kind.objects.filter(**whose).delete()
        owned = Session.objects.filter(user_id=consent.user_id, client_id=str(consent.client_id), revoked_at=None)
        ended = sessions.end_sessions(session_ids=list(owned.values_list("pk", flat=True)), reason=reason)
        details = {"client": str(consent.client_id), "name": consent.client.name, "sessions": ended}
        audit.record(Event.CONSENT_REVOKED, actor_id=actor_id, user_id=consent.user_id, details=details)
