"""What an identity may open: pure rules, against the ways in which accounts are taken over by linking.

Sources: Sudhodanan & Paverd, "Pre-hijacked accounts" (USENIX Security 2022); Descope, "nOAuth" (2023). An address that
a provider names opens no account by itself: the person signs in to the account, and then the identity is linked.
"""

import enum
from typing import NamedTuple
from uuid import UUID


class Holder(NamedTuple):
    """The account that has the address a provider names. ``is_proved``: its owner has shown that they read its mail."""

    user_id: UUID
    is_proved: bool


class UnknownIdentity(NamedTuple):
    """What a provider says of somebody whose identity is not known here, and what the operator says of the provider.

    ``is_verified``: the provider has verified the address, and the operator trusts it to. ``is_authority``: it runs the
    mailboxes of the address's domain. ``may_create``: it makes accounts, and anybody may sign up
    here, or this address is invited.
    """

    has_email: bool
    is_verified: bool
    is_authority: bool
    may_create: bool


class Step(enum.Enum):
    """What comes next for an unknown identity."""

    CREATE = enum.auto()  # an account with the verified address
    ACCEPT_TERMS = enum.auto()  # on a page; then an account is made
    LINK = enum.auto()  # to the account that has proved the address
    SIGN_IN_FIRST = enum.auto()  # to an account here; then the identity is linked to it
    SIGN_UP_FIRST = enum.auto()  # on the page, which proves the address; then the identity is linked to it


def next_step(told: UnknownIdentity, holder: Holder | None) -> Step:
    """Return what comes next for an identity that nobody has here.

    Args:
        told: What the provider says, and what it is worth.
        holder: The account that has the address, if any. It counts only where the address is verified: anybody can
            have a careless provider name any address, and what comes next must not tell whether it is held.
    """
    if holder is not None and told.is_verified:
        return Step.LINK if told.is_authority and holder.is_proved else Step.SIGN_IN_FIRST
    if not told.may_create:
        return Step.SIGN_IN_FIRST
    return Step.CREATE if told.has_email and told.is_verified else Step.SIGN_UP_FIRST
