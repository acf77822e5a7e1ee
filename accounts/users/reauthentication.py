"""Proving again who one is, before acts that a stolen session alone must not do.

Each kind of proof is a method in a module of its own: the password (``users.password_method``), the second factor
(``mfa.reauthentication``) and a mailed code (``email.code_method``). `register` puts them on the list when the
application starts. Code that needs a proof calls `reauthenticate` and names no method.
"""

import uuid
from abc import ABC, abstractmethod
from typing import ClassVar, Final

from accounts.audit.recording import Event
from accounts.users import queries as user_queries
from accounts.users import step_up
from accounts.users.proofs import Evidence, Proof, ProofRequest
from accounts.users.queries import Credentials
from ironauth.infrastructure.core.errors import FieldError, NotAuthenticated, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database


class Method(ABC):
    """A way to prove again who one is.

    Attributes:
        name: What it is called on the list.
        fields: The fields of `Evidence` that it reads; all of them have to be there.
        missing: What is said where nothing was sent that any method reads.
    """

    name: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    missing: ClassVar[FieldError]

    @abstractmethod
    def serves(self, person: Credentials, event: Event) -> bool:
        """Tell whether this person may prove by it who they are, for this act."""

    def is_second(self, person: Credentials) -> bool:
        """Tell whether this person is asked for another method where nothing was sent."""
        return False

    def accepts(self, shown: Evidence) -> bool:
        """Tell whether what it reads was sent."""
        return all(getattr(shown, field) is not None for field in self.fields)

    @abstractmethod
    async def judge(self, person: Credentials, shown: Evidence, asked: ProofRequest) -> Proof | None:
        """Judge what was shown; see `reauthenticate`. Wrong ones count for the method's own limits."""


_methods: Final[dict[str, Method]] = {}


def register(method: Method) -> None:
    """Add a method to the list; the first one that serves and is not second is asked for where nothing was sent."""
    _methods[method.name] = method


async def reauthenticate(person: Credentials, shown: Evidence, asked: ProofRequest) -> Proof | None:
    """Have somebody prove again who they are, by one of the methods that serve for this act.

    Args:
        person: Whose account it is.
        shown: What they sent.
        asked: For what, and where the request comes from.

    Returns:
        What has to be used up in the transaction of the act; None where the proof may be shown again.

    Raises:
        ValidationFailed: Nothing was sent that such a method reads; names the field.
        InvalidCredentials, SecondFactorRefused: What was sent is wrong; ``asked.event`` is left as failed in the trail.
        Throttled: After too many of those, before anything is judged.
        Unavailable: Nothing could be judged, and nothing was counted.
    """
    serving = [method for method in _methods.values() if method.serves(person, asked.event)]
    method = next((one for one in serving if one.accepts(shown)), None)
    if method is None:
        first = sorted(serving, key=lambda one: one.is_second(person))[:1]
        raise ValidationFailed(errors=[method.missing for method in first])
    return await method.judge(person, shown, asked)


async def active_user(user_id: uuid.UUID) -> Credentials:
    """Return the credentials of an active user.

    Raises:
        NotAuthenticated: There is none with this id.
    """
    found = await database().read(user_queries.credentials_of_id, user_id)
    if found is None or not found.is_active:
        raise NotAuthenticated
    return found


async def recently_present(user_id: uuid.UUID, authenticated_at: int) -> Credentials:
    """Return the credentials of an active user who need not step up; another proof is asked for as well.

    Args:
        user_id: Who it is.
        authenticated_at: When they last proved who they are; unix seconds.

    Raises:
        NotAuthenticated: There is no such user.
        StepUpRequired: They have a second factor, and that was more than 600 seconds ago.
    """
    found = await active_user(user_id)
    if found.methods:
        step_up.require_recent_at(authenticated_at)
    return found
