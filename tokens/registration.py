"""What becomes of this application's tables in the export of a person's data, and at the first proof of an address.

And which clients an invitation can lead to, that the logo of a verified one stays, that a lost membership reaches
sessions, and until when everybody's kept devices have ended.
"""

from typing import Any

from django.db.models import QuerySet

from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.invitations import continuing as invitations
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.organizations.signals import membership_changed
from accounts.privacy import export
from ironauth.infrastructure.db.compiled import Param
from tokens.clients import queries as clients
from tokens.clients import registry
from tokens.clients.documents import services as documents
from tokens.clients.fetched import logos
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant, LogoutNotice
from tokens.sessions.models import EverybodysEnd, KnownDevice, Session, everybodys_end
from tokens.sessions.organizations import changes as organizations
from tokens.upstream.models import UpstreamSession


def register() -> None:
    """Give each table that knows a person its rows of the export and its rule; called when the application is ready."""
    _register_export()
    _register_first_proof()
    registry.register_documents(documents.find)
    clients.client_verified.connect(logos.settled, dispatch_uid="tokens.logo_settled")
    membership_changed.connect(organizations.taken_out, dispatch_uid="tokens.organization_left")
    kept_devices.register_end(everybodys_end)
    invitations.register(find=clients.invited_to, offered=clients.to_invite_to)


def _register_export() -> None:
    """Add what is held about a person; of sessions, those over and not yet purged too."""
    export.register("sessions", _sessions, Session)
    export.register("known_devices", _known_devices, KnownDevice)
    export.register("consents", _consents, Consent)
    export.register("authorization_codes", _authorization_codes, AuthorizationCode)
    export.register("device_grants", _device_grants, DeviceGrant)
    export.register("logout_notices", _logout_notices, LogoutNotice)


def _register_first_proof() -> None:
    """Say what the first proof of an account's address does to each table."""
    add = first_proof.register
    add(Session, Fate.ENDED, "The new password raises the epoch, and with it every session and token ends.")
    add(EverybodysEnd, Fate.KEPT, "It names the member of staff who ended everybody's sessions, and no person else.")
    add(UpstreamSession, Fate.KEPT, "It opens nothing, and lets the provider end the session.")
    add(Consent, Fate.REMOVED, "A stranger allowed it; the owner is asked again.")
    add(AuthorizationCode, Fate.REMOVED, "A stranger began the sign-in that it is for.")
    add(DeviceGrant, Fate.REMOVED, "A stranger let the device in.")
    add(KnownDevice, Fate.REMOVED, "The owner hears of a device that the stranger used.")
    add(LogoutNotice, Fate.KEPT, "Applications are told that the stranger's sessions have ended.")


def _sessions(person: Param) -> QuerySet[Any, Any]:
    return Session.objects.filter(user_id=person).order_by("-created_at", "-pk").values(
        "id", "client_id", "scope", "resources", "details", "created_at", "last_used_at", "idle_expires_at",
        "absolute_expires_at",
        "revoked_at", "revoke_reason", "authenticated_at", "amr", "ip", "user_agent", "actor_id", "organization_id",
        "upstream__provider__slug", "upstream__subject", "upstream__sid",
    )  # fmt: skip


def _known_devices(person: Param) -> QuerySet[Any, Any]:
    """Return when devices were seen; what they are recognised by says nothing to anybody."""
    return KnownDevice.objects.filter(user_id=person).order_by("-pk").values("id", "seen_at")


def _consents(person: Param) -> QuerySet[Any, Any]:
    return Consent.objects.filter(user_id=person).order_by("-pk").values(
        "id", "client_id", "client__name", "scope", "resources", "created_at", "updated_at",
    )  # fmt: skip


def _authorization_codes(person: Param) -> QuerySet[Any, Any]:
    """Return what codes were made for; the rows go a while after the minute for which they are good."""
    return AuthorizationCode.objects.filter(user_id=person).order_by("-created_at").values(
        "client_id", "scope", "resources", "details", "redirect_uri", "authenticated_at", "amr", "created_at",
        "used_at", "session_id", "organization_id",
    )  # fmt: skip


def _device_grants(person: Param) -> QuerySet[Any, Any]:
    return DeviceGrant.objects.filter(user_id=person).order_by("-created_at").values(
        "client_id", "scope", "resources", "details", "state", "authenticated_at", "amr", "created_at",
        "session_id",
    )  # fmt: skip


def _logout_notices(person: Param) -> QuerySet[Any, Any]:
    """Return which clients have still to be told that a session has ended."""
    return LogoutNotice.objects.filter(user_id=person).order_by("-pk").values("client_id", "session_id", "created_at")
