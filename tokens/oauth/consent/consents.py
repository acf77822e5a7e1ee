"""What people have allowed clients. Units of work; giving up what was allowed is ``services``' business."""

from uuid import UUID

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from ironauth.infrastructure.core import clock
from tokens.oauth.models import Consent
from tokens.protocol import scope_set, scope_text


def allowed(*, user_id: UUID, client_id: UUID) -> frozenset[str]:
    """Return the scopes the person has allowed the client, none if they were never asked. 1 query."""
    found = Consent.objects.filter(user_id=user_id, client_id=client_id).values_list("scope", flat=True).first()
    return scope_set(found or "")


def remember(*, user_id: UUID, client_id: UUID, scope: str, session_id: UUID) -> None:
    """Note that the person has just allowed the client these scopes, in addition to those allowed before.

    3 queries, and a savepoint for the first time. Of two at once, in two tabs, one waits for the other: the second adds
    to what the first has written. ``session_id``: the SSO session it is done in.
    """
    now = clock.now()
    row, new = Consent.objects.select_for_update().get_or_create(
        user_id=user_id,
        client_id=client_id,
        defaults={"scope": scope, "created_at": now, "updated_at": now},
    )
    if not new:
        row.scope = scope_text(scope_set(row.scope) | scope_set(scope))
        row.updated_at = now
        row.save(update_fields=["scope", "updated_at"])
    details = {"client": str(client_id), "scope": scope.split()}
    audit.record(Event.CONSENT_GIVEN, actor_id=user_id, user_id=user_id, session_id=session_id, details=details)
