"""What pages are told of an account that is being deleted."""

from datetime import datetime
from typing import NamedTuple

from accounts.mfa import factors


class Deleted(NamedTuple):
    """What a link that restores an account is about, for the page that asks.

    Attributes:
        email: The address that the account gets back.
        made_at: When the account was made.
        proved: Somebody has proved the address.
        ways: The second factors one by one, where nobody has proved it.
        may_disown: The owner of the mailbox may end the account.
    """

    email: str
    made_at: datetime
    proved: bool
    ways: tuple[factors.FactorSummary, ...]
    may_disown: bool
