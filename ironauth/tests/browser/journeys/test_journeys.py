"""Every journey of a person in a browser, on pages of every size, colour and language, with scripts and without.

The gate walks each journey once, in looks that are dealt (``look.DEALT``); ``make walks`` walks all in all looks.
"""

import os

import pytest

from ironauth.tests.browser.journeys.look import Look, all_walks, dealt_walks
from ironauth.tests.browser.journeys.registry import JOURNEYS, kinds
from ironauth.tests.browser.journeys.walker import Walker

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),  # the stage copies its database
    pytest.mark.asyncio(loop_scope="session"),
]

WALKS = (all_walks if os.environ.get("IRONAUTH_TEST_WALKS") == "all" else dealt_walks)(kinds())


@pytest.mark.parametrize(("name", "look"), WALKS, ids=[f"{name}-{look}" for name, look in WALKS])
async def test_a_journey(name: str, look: Look, walker: Walker) -> None:
    """The person gets where they want to go, and every page on the way fits, can be read and used, and is light."""
    await JOURNEYS[name].walk(walker)
    assert walker.seen > 0
