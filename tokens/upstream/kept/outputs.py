"""What a service gets to act for a person at a provider."""

from datetime import datetime

import msgspec


class UpstreamTokenOut(msgspec.Struct, frozen=True):
    """An access token of a provider, and who the person is there.

    ``expires_at``: null where it is not known.
    """

    access_token: str
    scope: str
    expires_at: datetime | None
    provider: str
    subject: str

    def __repr__(self) -> str:
        """Name it without telling the token: a traceback may show this."""
        return f"<access token of {self.provider}>"
