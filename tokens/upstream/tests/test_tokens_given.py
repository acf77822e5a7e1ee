"""Access that is kept is given to machines with the scope alone, renewed at the provider, and in the trail."""

import asyncio
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.federation import kept_tokens, removal
from accounts.federation.errors import UpstreamUnavailable
from accounts.federation.kept_tokens import Tokens
from accounts.federation.models import Identity, KeptTokens, UpstreamProvider
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.outbound.request import Exchange
from ironauth.tests.docs.blocks import Guide
from tokens.tests.machine import Headers, make_machine
from tokens.tests.stage import Stage
from tokens.upstream import answers, exchange
from tokens.upstream.kept import services, units
from tokens.upstream.kept.errors import NoUpstreamToken
from tokens.upstream.kept.outputs import UpstreamTokenOut
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_kept_tokens import set_provider
from tokens.upstream.tests.walk import stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
RENEWED = {"token_type": "Bearer", "access_token": "at-2", "refresh_token": "rt-2", "expires_in": 3_600}


@pytest.fixture
async def machine(stage: Stage) -> Headers:
    """What a service with the scope sends."""
    return (await make_machine(stage.api, "providers:tokens"))[1]


@pytest.fixture
async def person(stage: Stage, provider: FakeProvider) -> uuid.UUID:
    """A member with an access token that is good for an hour."""
    await sync_to_async(set_provider)(keep_tokens=True)
    await sync_to_async(give)(stage.member)
    return stage.member


def give(user_id: uuid.UUID, *, end_s: int | None = 3_600, refresh_token: str = "rt-1", subject: str = "s") -> None:
    """Keep tokens of somebody, whose access token is good for so many seconds more."""
    row = UpstreamProvider.objects.get(slug="acme")
    identity, _ = Identity.objects.get_or_create(
        user_id=user_id, provider=row, defaults={"issuer": row.issuer, "subject": subject}
    )
    now = int(clock.unix())
    tokens = Tokens("at-1", refresh_token, "openid", 0 if end_s is None else now + end_s, now)
    KeptTokens.objects.filter(pk=identity.pk).delete()
    KeptTokens.objects.create(identity=identity, **kept_tokens.columns(identity, row.pk, tokens))


def stored_tokens() -> Tokens | None:
    """Return what is kept now, in clear."""
    row = KeptTokens.objects.select_related("identity").first()
    return None if row is None else kept_tokens.opened(row)


async def asked(
    stage: Stage, headers: Headers | None, expected: int, user_id: uuid.UUID | None = None, slug: str = "acme"
) -> Any:
    """Ask for the member's access token."""
    path = f"/api/v1/users/{user_id or stage.member}/provider-tokens/{slug}"
    answer = await stage.api.post(path, headers=headers)
    assert answer.status_code == expected, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert "rt-" not in answer.text
    return answer.json()


async def events() -> list[tuple[str, Any, Any, Any]]:
    """Return the events of tokens that were asked for."""
    found = AuditEvent.objects.filter(event="provider_token_given").order_by("at", "pk")
    return [(one.outcome, one.actor_id, one.user_id, one.details) async for one in found]


# ---------------------------------------------------------------- who gets one
async def test_a_machine_with_the_scope(stage: Stage, person: uuid.UUID) -> None:
    """It gets the access token alone, and the trail says who has got it, whose it is, and for what."""
    client, headers = await make_machine(stage.api, "providers:tokens")
    given = await asked(stage, headers, 200)
    end = given.pop("expires_at")
    assert given == {"access_token": "at-1", "scope": "openid", "provider": "acme", "subject": "s"}
    assert datetime.fromisoformat(end) == (await KeptTokens.objects.aget()).expires_at
    assert await events() == [("success", client.pk, person, {"provider": "acme", "scope": "openid"})]


@pytest.mark.parametrize("scope", ["users:read", "providers:read", "providers:write", "users:write"])
async def test_a_machine_without_the_scope(stage: Stage, person: uuid.UUID, scope: str) -> None:
    """Is refused, and nothing is given."""
    _, headers = await make_machine(stage.api, scope)
    assert (await asked(stage, headers, 403))["code"] == "insufficient_scope"
    assert await events() == []


async def test_no_person_gets_one(stage: Stage, person: uuid.UUID) -> None:
    """Neither the person, nor a superuser, nor a stranger."""
    for pair, status in ((stage.pair, 403), (stage.root_pair, 403), (None, 401)):
        headers = {"Authorization": f"Bearer {pair['access_token']}"} if pair else None
        await asked(stage, headers, status)
    assert await events() == []


async def test_of_people_with_rights(stage: Stage, person: uuid.UUID, machine: Headers) -> None:
    """It needs those rights too: an account elsewhere may be the way into this one."""
    await sync_to_async(give)(stage.root, subject="root")
    await asked(stage, machine, 403, stage.root)
    assert await events() == []


async def test_what_is_not_there(stage: Stage, person: uuid.UUID, machine: Headers) -> None:
    """404 for no such person or provider; 409 where none are kept."""
    await asked(stage, machine, 404, uuid.uuid4())
    await asked(stage, machine, 404, slug="other")
    other = await User.objects.acreate(email="other@example.com", email_key="other@example.com")
    assert (await asked(stage, machine, 409, other.pk))["code"] == "no_upstream_token"
    await sync_to_async(stored)("other", "https://o.example", keep_tokens=True)
    assert (await asked(stage, machine, 409, slug="other"))["code"] == "no_upstream_token"


@pytest.mark.parametrize("off", [{"keep_tokens": False}, {"enabled": False}])
async def test_of_a_provider_that_is_off(
    stage: Stage, person: uuid.UUID, machine: Headers, off: dict[str, bool]
) -> None:
    """None is given, whatever row is there."""
    await sync_to_async(set_provider)(**off)
    await asked(stage, machine, 404)


async def test_of_an_account_that_is_off(stage: Stage, person: uuid.UUID, machine: Headers) -> None:
    """Staff have deactivated it: nothing acts for the person any more."""
    await User.objects.filter(pk=person).aupdate(is_active=False)
    await asked(stage, machine, 409)


async def test_moved_to_another_account(stage: Stage, person: uuid.UUID, machine: Headers) -> None:
    """A row that somebody has put to another identity opens nothing."""
    other = await User.objects.acreate(email="other@example.com", email_key="other@example.com")
    await sync_to_async(give)(other.pk, subject="other")
    mine = await KeptTokens.objects.aget(identity__user_id=person)
    await KeptTokens.objects.filter(identity__user_id=other.pk).aupdate(sealed=bytes(mine.sealed))
    assert (await asked(stage, machine, 409, other.pk))["code"] == "no_upstream_token"
    assert (await asked(stage, machine, 200))["access_token"] == "at-1"


# ---------------------------------------------------------------- renewed at the provider
@pytest.mark.parametrize(
    ("end_s", "renews"), [(services.EARLY_S + 30, False), (services.EARLY_S - 5, True), (None, False)]
)
async def test_when_it_is_renewed(
    stage: Stage, person: uuid.UUID, machine: Headers, provider: FakeProvider, end_s: int | None, renews: bool
) -> None:
    """A minute before its end; never where the provider names none."""
    await sync_to_async(give)(person, end_s=end_s)
    provider.renewed = (200, RENEWED)
    given = await asked(stage, machine, 200)
    assert given["access_token"] == ("at-2" if renews else "at-1")
    assert provider.renewals == (["rt-1"] if renews else [])
    now = await sync_to_async(stored_tokens)()
    assert now is not None
    assert now.refresh_token == ("rt-2" if renews else "rt-1")
    assert len(await events()) == 1
    await asked(stage, machine, 200)
    assert len(provider.renewals) == renews


async def test_a_refresh_token_that_is_good_again(
    stage: Stage, person: uuid.UUID, machine: Headers, provider: FakeProvider
) -> None:
    """Where the provider gives no new one, the old one stays; and a short new token is given as it is."""
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed = (200, {"token_type": "Bearer", "access_token": "at-2", "expires_in": 30})
    assert (await asked(stage, machine, 200))["access_token"] == "at-2"
    now = await sync_to_async(stored_tokens)()
    assert now is not None
    assert (now.refresh_token, now.scope) == ("rt-1", "openid")
    assert provider.renewals == ["rt-1"]


@pytest.mark.parametrize("said", [0, "0", -1, "soon"])
async def test_a_provider_whose_tokens_end_at_once(
    stage: Stage, person: uuid.UUID, machine: Headers, provider: FakeProvider, said: object
) -> None:
    """Asked once by each call, which gives nothing."""
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed = (200, RENEWED | {"expires_in": said})
    assert (await asked(stage, machine, 503))["code"] == "upstream_unavailable"
    assert provider.renewals == ["rt-1"]
    assert (await asked(stage, machine, 503))["code"] == "upstream_unavailable"
    assert provider.renewals == ["rt-1", "rt-2"]
    assert await events() == []


@pytest.mark.parametrize("change", [{"client_id": "another"}, {"issuer": "https://other.example"}, {"name": "Acme"}])
async def test_asked_as_another_client_since_they_were_read(
    person: uuid.UUID, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    """The refresh token of the client of before is sent nowhere; another name changes nothing."""
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed = (200, RENEWED)
    claim = units.claim

    def meanwhile(held: units.Held) -> bool:
        set_provider(**change)
        return claim(held)

    monkeypatch.setattr(units, "claim", meanwhile)
    if "name" in change:
        assert (await services.access_token(user_id=person, provider="acme")).access_token == "at-2"
    else:
        with pytest.raises(UpstreamUnavailable):
            await services.access_token(user_id=person, provider="acme")
    assert provider.renewals == (["rt-1"] if "name" in change else [])


async def test_a_refresh_token_is_sent_on_a_connection_of_its_own(
    person: uuid.UUID, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a kept one that closes it would be sent again; every other request is made on one of those."""
    kept: dict[str, bool] = {}

    class Seen(Exchange):
        def __init__(self, url: str, **options: Any) -> None:
            super().__init__(url, **options)
            kept[url.removeprefix(provider.issuer)] = options["kept"] is exchange.KEPT

    monkeypatch.setattr(exchange, "Exchange", Seen)
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed = (200, RENEWED)
    assert (await services.access_token(user_id=person, provider="acme")).access_token == "at-2"
    assert kept == {"/.well-known/openid-configuration": True, "/token": False}


async def test_without_a_refresh_token(stage: Stage, person: uuid.UUID, machine: Headers) -> None:
    """One that has ended is not given; what is kept stays, for the person to see."""
    await sync_to_async(give)(person, end_s=-1, refresh_token="")
    assert (await asked(stage, machine, 409))["code"] == "no_upstream_token"
    assert await KeptTokens.objects.aexists()


@pytest.mark.parametrize(
    ("answer", "status", "stays"),
    [
        ((400, {"error": "invalid_grant"}), 409, False),
        ((200, {"error": "bad_refresh_token"}), 409, False),
        ((400, {"error": "invalid_scope"}), 503, True),
        ((401, {"error": "invalid_client"}), 503, True),
        ((500, {}), 503, True),
        ((200, {}), 503, True),
        ((200, {"access_token": "at-2", "token_type": "DPoP"}), 503, True),
    ],
)
async def test_what_the_provider_refuses(
    stage: Stage,
    person: uuid.UUID,
    machine: Headers,
    provider: FakeProvider,
    answer: tuple[int, dict[str, Any]],
    status: int,
    stays: bool,
) -> None:
    """Access that was taken back there is deleted, with an event; anything else changes nothing."""
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed = answer
    await asked(stage, machine, status)
    assert await KeptTokens.objects.aexists() is stays
    assert [one[0] for one in await events()] == ([] if stays else ["failure"])


async def test_a_provider_that_is_down_is_left_alone(
    stage: Stage, person: uuid.UUID, machine: Headers, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once in fifteen seconds, however often a service wants the token."""
    monkeypatch.setattr(services, "PAUSE_S", 0.0)
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed = (500, {})
    for _ in range(3):
        await asked(stage, machine, 503)
    assert provider.renewals == ["rt-1"]
    await KeptTokens.objects.aupdate(refreshing_until=clock.now() - timedelta(seconds=1))
    provider.renewed = (200, RENEWED)
    assert (await asked(stage, machine, 200))["access_token"] == "at-2"


def test_the_lease_outlasts_an_answer() -> None:
    """Nobody else asks while the first one may still hear; and who waits looks until then."""
    assert units.LEASE_S > 2 * exchange.LIMIT_S
    assert services.LOOKS * services.PAUSE_S > exchange.LIMIT_S


async def test_many_at_once_ask_once(person: uuid.UUID, provider: FakeProvider) -> None:
    """A refresh token that is good once is used once; each gets the new access token."""
    await sync_to_async(give)(person, end_s=-1)
    provider.renewed, provider.delay_s = (200, RENEWED), 0.2
    found = await asyncio.gather(*(services.access_token(user_id=person, provider="acme") for _ in range(5)))
    assert {one.access_token for one in found} == {"at-2"}
    assert provider.renewals == ["rt-1"]


@pytest.mark.parametrize("by", ["unlinked", "signed in anew"])
async def test_changed_while_it_is_renewed(person: uuid.UUID, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """Unlinked, nothing is given and nothing is kept; after another sign-in, what that has brought."""
    await sync_to_async(give)(person, end_s=-1)
    identity = await Identity.objects.aget()

    async def meanwhile(*_: object) -> dict[str, Any]:
        if by == "unlinked":
            unlink: dict[str, Any] = {"user_id": person, "identity_id": identity.pk, "session_id": None}
            await database().write(removal.unlink, **unlink)
        else:
            await sync_to_async(give)(person)
        return RENEWED

    monkeypatch.setattr(answers, "renewed", meanwhile)
    if by == "unlinked":
        with pytest.raises(NoUpstreamToken):
            await services.access_token(user_id=person, provider="acme")
        assert not await KeptTokens.objects.aexists()
    else:
        assert (await services.access_token(user_id=person, provider="acme")).access_token == "at-1"


async def test_the_guide(person: uuid.UUID) -> None:
    """The function of the guide returns the token, and the trail has an event without a machine."""
    block = Guide("docs/guides/upstream-providers.md").block("from tokens.upstream.kept import services")
    space: dict[str, Any] = {}
    exec(block.replace('"hub"', '"acme"'), space)  # noqa: S102 - our own page
    assert await space["calendar_token"](person) == "at-1"
    assert await events() == [("success", None, person, {"provider": "acme", "scope": "openid"})]


def test_what_is_given_is_in_no_representation() -> None:
    """A traceback of a service shows no token."""
    given = UpstreamTokenOut("at-1", "openid", None, "acme", "s")
    assert "at-1" not in repr(given)
