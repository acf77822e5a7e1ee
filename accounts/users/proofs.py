"""What proves who somebody is: what was shown, who is asked for it and for what, and what was right."""

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from accounts.audit.recording import Event
from ironauth.infrastructure.core.errors import NotAuthenticated


class Evidence(NamedTuple):
    """What was sent to prove who somebody is; each method and each second factor reads its own fields."""

    password: str | None = None
    code: str | None = None
    challenge_token: str | None = None
    credential: Mapping[str, Any] | None = None
    email_code: str | None = None

    @classmethod
    def in_body(cls, data: Mapping[str, Any]) -> "Evidence":
        """Return what the validated body of a request shows."""
        return cls(**{field: data.get(field) for field in cls._fields})


class ProofRequest(NamedTuple):
    """The question to prove who one is: to which account, and for what.

    Attributes:
        user_id: The account.
        event: What is left as failed in the trail by a wrong proof.
        address: The client's IP address; "" when unknown.
        session_id: The session it is asked in; None before one is open.
    """

    user_id: uuid.UUID
    event: Event
    address: str = ""
    session_id: uuid.UUID | None = None

    @property
    def actor_id(self) -> uuid.UUID | None:
        """Who acts, for the trail: nobody before a session is open. Sessions of the admin have no id here."""
        return self.user_id if self.session_id or self.event is Event.STEP_UP else None


class Proof(Protocol):
    """Something that was right when it was judged, and may count once."""

    @property
    def user_id(self) -> uuid.UUID:
        """Whose it is."""

    @property
    def amr(self) -> str:
        """How it was proved: values of RFC 8176, or ours where it has none."""

    @property
    def refusal(self) -> type[NotAuthenticated]:
        """What to raise when it does not count."""

    def use(self) -> bool:
        """Make it count, in the caller's transaction; False when another request was faster."""
