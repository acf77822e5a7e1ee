"""What an act on people is: who may do it, which people it spares, and what it does to each."""

import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from django.db.models import Q, QuerySet

from accounts.users.models import User

BATCH: Final = 500  # users in one statement; SQLite as first shipped takes 999 variables


class Change(NamedTuple):
    """What an action does to each user, and the words for it, good for one and for many.

    Attributes:
        name: The name of the action in forms and in the log.
        title: On the button of a person's page.
        choice: In the list of actions.
        done: What the log and the message say was done.
        warning: What it entails; "" asks nothing first.
        excluded_note: Which people are spared, in words.
        right: The permission that it needs, as ``app_label.codename``.
        danger: Something is lost by it: its button has the class ``danger``.
        carry_out: Gets the ids of at most ``batch`` users and the caller's, inside a transaction, and records its
            events.
        concerns: The people to whose accounts anything is to be done.
        batch: Users in one transaction.
        spares_oneself: It would lock the caller out.
        takes_over: It would help a caller into the account, so people with rights that the caller lacks are spared.
        step_up: It needs a proof of the last ten minutes of the member of staff.
        spared: Returns those of some people who are spared for what only a query of their own tells.
        warning_of: Returns what else it entails for some people; "" for nothing.
    """

    name: str
    title: str
    choice: str
    done: str
    warning: str
    excluded_note: str
    right: str
    danger: bool
    carry_out: Callable[[Sequence[uuid.UUID], uuid.UUID], None]
    concerns: Q = Q()
    batch: int = BATCH
    spares_oneself: bool = False
    takes_over: bool = False
    step_up: bool = True
    spared: Callable[[QuerySet[User]], QuerySet[User]] | None = None
    warning_of: Callable[[QuerySet[User]], str] | None = None
