"""What an identity that nobody has here may open, by what is known of its address: every case there is."""

from itertools import product

import pytest

from accounts.federation.rules import Holder, Step, UnknownIdentity, next_step
from ironauth.infrastructure.core.ids import new_id

PROVED, UNPROVED = Holder(new_id(), is_proved=True), Holder(new_id(), is_proved=False)
CASES = [
    (UnknownIdentity(*said), holder) for said in product((True, False), repeat=4) for holder in (PROVED, UNPROVED, None)
]


@pytest.mark.parametrize(("told", "holder"), CASES)
def test_an_account_opens_to_the_authority_of_a_proved_address_alone(
    told: UnknownIdentity, holder: Holder | None
) -> None:
    """It is linked at once where the provider runs the mailbox, has verified it, and its holder has proved it here."""
    links = told.is_verified and told.is_authority and holder is PROVED
    assert (next_step(told, holder) is Step.LINK) is links


@pytest.mark.parametrize(("told", "holder"), CASES)
def test_an_account_is_made_for_a_verified_address_that_nobody_has(
    told: UnknownIdentity, holder: Holder | None
) -> None:
    """An address that is not verified is proved by signing up; one that somebody has makes nothing."""
    step = next_step(told, holder)
    makes = told.may_create and told.has_email and told.is_verified and holder is None
    assert (step is Step.CREATE) is makes
    if step is Step.SIGN_UP_FIRST:
        assert told.may_create
        assert not (told.is_verified and (told.has_email or holder is not None))


@pytest.mark.parametrize("told", [told for told, holder in CASES if holder is None and not told.is_verified])
def test_an_address_that_is_not_verified_tells_nothing(told: UnknownIdentity) -> None:
    """What comes next is the same whether somebody has the address, and has proved it, or not."""
    assert len({next_step(told, holder) for holder in (PROVED, UNPROVED, None)}) == 1
