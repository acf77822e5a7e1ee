"""What staff are told of an account; the codes are part of the HTTP contract."""

import enum
from datetime import datetime

import msgspec


class Code(enum.StrEnum):
    """Why somebody can or cannot sign in."""

    CAN_SIGN_IN = "can_sign_in"
    BEING_DELETED = "being_deleted"
    DEACTIVATED = "deactivated"
    ADDRESS_NOT_CONFIRMED = "address_not_confirmed"
    MUST_CHANGE_PASSWORD = "must_change_password"  # noqa: S105 - a code
    NO_WAY_IN = "no_way_in"
    MUST_WAIT = "must_wait"
    LOCKED_OUT = "locked_out"
    SECOND_FACTOR_MUST_WAIT = "second_factor_must_wait"
    SECOND_FACTOR_LOCKED_OUT = "second_factor_locked_out"


class Verdict(msgspec.Struct, frozen=True):
    """Whether somebody can sign in: a code, a sentence, and since and until when, where that is known.

    ``more``: what explains the sentence, or wrong passwords that keep nobody out; "" where there is nothing to add.
    ``failures`` and ``networks``: wrong passwords or codes of the last day, and from how many networks they came; of
    somebody who can sign in, those since their last sign-in.
    """

    can_sign_in: bool
    code: Code
    words: str
    since: datetime | None = None
    until: datetime | None = None
    failures: int = 0
    networks: int = 0
    more: str = ""
