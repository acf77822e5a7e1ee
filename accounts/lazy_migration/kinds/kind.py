"""What a kind of old system is."""

from collections.abc import Callable
from typing import NamedTuple

from accounts.lazy_migration.conversation import Conversation
from accounts.transfer.records import Person


class Kind(NamedTuple):
    """One kind of old system.

    Attributes:
        name: As ``IRONAUTH_LAZY_MIGRATION`` has it.
        source: The source of ``accounts.transfer.sources`` whose ids are those of this system.
        ask: Gets a conversation, an address and a password, and returns whose they are; None where they are not right,
            or the system wants more than a password. Blocks. Raises what ``Conversation.send`` does, and
            ``UnusableAnswerError``, ``MalformedError``, ``LookupError``, ``TypeError``, ``AttributeError`` or
            ``ValueError`` for an answer that is not of the system's form.
    """

    name: str
    source: str
    ask: Callable[[Conversation, str, str], Person | None]
