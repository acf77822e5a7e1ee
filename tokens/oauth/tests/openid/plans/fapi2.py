"""What the modules of FAPI 2.0 share: the clients of a trial, and refusals."""

from typing import Any, Final

from tokens.oauth.tests.openid.fapi2_client import Fapi2Client
from tokens.oauth.tests.openid.registry import Trial
from tokens.oauth.tests.openid.relying_party import error_of

NAME: Final = "fapi2-security-profile-final"


def client_of(trial: Trial, **fields: Any) -> Fapi2Client:
    """Return a new client; another ``number`` has another key."""
    return Fapi2Client(trial.site, **{"mode": trial.mode, "signed": trial.signed, **fields})


def refused_when_pushed(trial: Trial, error: str = "invalid_request", **changes: str | None) -> None:
    """Check that a request with these changes is refused when it is pushed, and one without them is not."""
    client = client_of(trial)
    error_of(client.push(client.request(**changes)), error)
    client.pushed(client.request())
