"""What becomes of this application's rows when somebody proves an account's address for the first time."""

from accounts.email import first_proof
from accounts.email.first_proof import Fate
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant, LogoutNotice
from tokens.sessions.models import KnownDevice, Session
from tokens.upstream.models import UpstreamSession


def register() -> None:
    """Give each model that knows a person its rule; called once, when the application is ready."""
    add = first_proof.register
    add(Session, Fate.ENDED, "The new password raises the epoch, and with it every session and token ends.")
    add(UpstreamSession, Fate.KEPT, "It opens nothing, and lets the provider end the session.")
    add(Consent, Fate.REMOVED, "A stranger allowed it; the owner is asked again.")
    add(AuthorizationCode, Fate.REMOVED, "A stranger began the sign-in that it is for.")
    add(DeviceGrant, Fate.REMOVED, "A stranger let the device in.")
    add(KnownDevice, Fate.REMOVED, "The owner hears of a device that the stranger used.")
    add(LogoutNotice, Fate.KEPT, "Applications are told that the stranger's sessions have ended.")
