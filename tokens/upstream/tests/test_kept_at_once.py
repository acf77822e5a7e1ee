"""A provider's tokens are kept while the provider is changed, or others sign in: in two transactions at once."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection

from accounts.federation import kept_tokens, queries, units
from accounts.federation.kept_tokens import Tokens
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.tests.browser import Member
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_kept_tokens import set_provider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


@pytest.fixture
def keeping(provider: FakeProvider) -> FakeProvider:
    """The provider, whose tokens are kept."""
    set_provider(keep_tokens=True)
    return provider


@pytest.mark.parametrize("first", ["kept", "switched off"])
async def test_switched_off_in_the_same_moment(member: Member, keeping: FakeProvider, first: str) -> None:
    """Whichever is first, and though neither sees what the other has not committed: nothing is left."""
    row = await UpstreamProvider.objects.aget()
    user = await User.objects.aget(pk=member["id"])
    identity = await Identity.objects.acreate(user=user, provider=row, issuer=row.issuer, subject="s")
    person, begun = UpstreamPerson(row.issuer, "s"), threading.Event()
    waiting = kept_tokens.on_their_way(
        Tokens("at", "", "", 0, 1), provider_id=row.pk, client=kept_tokens.client_of(row), person=person
    )

    def turn(act: str) -> None:
        """Let the first one begin, and keep its transaction open for a while."""
        if act != first:
            begun.wait(0.5)

    def done(act: str) -> None:
        begun.set()
        if act == first:
            time.sleep(0.3)

    def keep() -> None:
        turn("kept")
        kept_tokens.keep(identity, provider_id=row.pk, waiting=waiting)
        done("kept")

    def switch_off() -> None:
        turn("switched off")
        UpstreamProvider.objects.filter(pk=row.pk).update(keep_tokens=False)
        done("switched off")
        kept_tokens.forget(row.pk)

    await asyncio.gather(database().write(keep), database().write(switch_off))
    assert not await KeptTokens.objects.aexists()


async def test_linked_while_the_provider_is_changed(member: Member, keeping: FakeProvider) -> None:
    """Who links holds the waiting row and wants the provider's, who changes it the other way round: both end well."""
    row = await UpstreamProvider.objects.aget()
    person = UpstreamPerson(row.issuer, "s")
    waiting = await UpstreamSignIn.objects.acreate(
        digest="d",
        browser=queries.digest_of("b"),
        provider=row,
        issuer=row.issuer,
        subject="s",
        expires_at=clock.now() + timedelta(minutes=5),
        tokens=kept_tokens.on_their_way(
            Tokens("at", "", "", 0, 1), provider_id=row.pk, client=kept_tokens.client_of(row), person=person
        ),
    )
    both, changed = threading.Barrier(2), threading.Event()

    def link() -> object:
        if connection.vendor == "postgresql":
            list(UpstreamSignIn.objects.select_for_update())
            both.wait(5)
            changed.wait(0.3)  # by then it waits for this row, if it does
        return units.link_waiting(user_id=member["id"], waiting_id=waiting.pk, browser="b")

    def change() -> None:
        UpstreamProvider.objects.filter(pk=row.pk).update(client_id="another")
        if connection.vendor == "postgresql":
            both.wait(5)
        kept_tokens.forget(row.pk)
        changed.set()
        time.sleep(0.1)

    linked, _ = await asyncio.gather(database().write(link), database().write(change))
    assert linked is not None
    assert not await KeptTokens.objects.aexists()
    assert not await UpstreamSignIn.objects.aexists()


async def test_sign_ins_of_one_provider_do_not_wait_for_each_other(member: Member, keeping: FakeProvider) -> None:
    """Two keep tokens in transactions that are open at once; who changes the provider waits for both."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")
    row = await UpstreamProvider.objects.aget()
    both = threading.Barrier(2)
    done: list[str] = []

    def keep() -> None:
        assert kept_tokens._keeping(row.pk) is not None
        both.wait(5)
        time.sleep(0.2)
        done.append("kept")

    def change() -> None:
        time.sleep(0.1)
        UpstreamProvider.objects.filter(pk=row.pk).update(keep_tokens=False)
        done.append("changed")

    await asyncio.gather(database().write(keep), database().write(keep), database().write(change))
    assert done == ["kept", "kept", "changed"]
