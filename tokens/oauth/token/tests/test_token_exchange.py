"""Token exchange (RFC 8693): delegation that names who acts, and never gives more than was shown."""

import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from conftest import PASSWORD, bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from tokens.clients import units as client_units
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.flow import REVOKE, TOKEN, Party
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof
from tokens.oauth.token.exchange import ACCESS_TOKEN
from tokens.oauth.token.tests.test_token_code import a_code, said
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.tests.browser import ME, VERIFY, Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
USERINFO = "/oauth/userinfo"
Tokens = dict[str, Any]


@pytest.fixture
async def proxy(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A service that passes on what it was given."""
    return await an_actor(api, name="Proxy")


async def an_actor(api: httpx.AsyncClient, **fields: Any) -> Party:
    """Return a client with the grant."""
    given = {"grants": [EXCHANGE], "scopes": ["openid", "email", "account", "reports"], "redirect_uris": [], **fields}
    return Party(api, *await sync_to_async(make_client)(**given))


async def exchange(party: Party, token: str, **changes: str) -> httpx.Response:
    """Show a token; a change to "" leaves the parameter out."""
    asked = {"subject_token": token, "subject_token_type": ACCESS_TOKEN, **changes}
    return await party.post(TOKEN, grant_type=EXCHANGE, **{name: value for name, value in asked.items() if value})


async def refused(party: Party, token: str, error: str = "invalid_request", **changes: str) -> None:
    """The exchange is refused with this error."""
    answer = await exchange(party, token, **changes)
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.text


async def test_what_comes_out(proxy: Party, wiki: Party, tokens: Tokens, member: Member) -> None:
    """An access token alone: the person and session of the first, who acts in it, and no more scope than both have."""
    answer = (await exchange(proxy, tokens["access_token"])).json()
    assert list(answer) == ["access_token", "token_type", "expires_in", "scope", "issued_token_type"]
    assert (answer["token_type"], answer["issued_token_type"], answer["scope"]) == (
        "Bearer",
        ACCESS_TOKEN,
        "email openid",
    )
    first, second = said(tokens["access_token"]), said(answer["access_token"])
    assert (second["sub"], second["sid"], second["client_id"]) == (member["id"], first["sid"], str(proxy.client.pk))
    assert second["act"] == {"sub": str(proxy.client.pk)}
    assert (await proxy.introspect(answer["access_token"]))["act"] == second["act"]
    found = await proxy.api.get(USERINFO, headers=bearer(answer))
    assert (found.status_code, found.json()["email"]) == (200, member["email"])
    event = await AuditEvent.objects.aget(event="token_exchanged")
    assert (event.user_id, event.session_id) == (uuid.UUID(member["id"]), uuid.UUID(first["sid"]))
    assert event.details == {
        "client": str(proxy.client.pk), "from_client": str(wiki.client.pk), "scope": ["email", "openid"],
    }  # fmt: skip


async def test_access_while_the_person_is_away_is_not_passed_on(
    api: httpx.AsyncClient, wiki: Party, tokens: Tokens
) -> None:
    """offline_access, which both clients may have, is not in what comes out, and cannot be asked for."""
    actor = await an_actor(api, scopes=["openid", "offline_access"])
    assert "offline_access" in tokens["scope"].split()
    assert (await exchange(actor, tokens["access_token"])).json()["scope"] == "openid"
    await refused(actor, tokens["access_token"], "invalid_scope", scope="openid offline_access")


async def test_scope_only_shrinks(proxy: Party, tokens: Tokens) -> None:
    """Less may be asked for; what one of the two has not, nobody gets, nor a token without scope."""
    assert (await exchange(proxy, tokens["access_token"], scope="openid")).json()["scope"] == "openid"
    for scope in ("profile", "account", "reports", "openid profile", "offline_access"):
        await refused(proxy, tokens["access_token"], "invalid_scope", scope=scope)
    less = (await exchange(proxy, tokens["access_token"], scope="openid")).json()
    await refused(proxy, less["access_token"], "invalid_scope", scope="email")
    other = await an_actor(proxy.api, scopes=["reports"])
    await refused(other, tokens["access_token"], "invalid_scope")


async def test_it_ends_with_what_was_shown(proxy: Party, tokens: Tokens) -> None:
    """It expires with the first token, and with the session at once."""
    with clock.shifted(300):
        answer = (await exchange(proxy, tokens["access_token"])).json()
        assert 298 <= answer["expires_in"] <= 300
        assert said(answer["access_token"])["exp"] == said(tokens["access_token"])["exp"]
        assert (await proxy.api.get(VERIFY, headers=bearer(answer))).status_code == 204
        session_id = uuid.UUID(said(answer["access_token"])["sid"])
        reason = Session.RevokeReason.ENDED_BY_STAFF
        await sync_to_async(sessions.end_session)(session_id=session_id, reason=reason)
        assert (await proxy.api.get(VERIFY, headers=bearer(answer))).status_code == 401
        await refused(proxy, tokens["access_token"])


@pytest.mark.parametrize("ended", ["wiki", "middle", "proxy"])
async def test_it_ends_with_each_client_it_went_through(
    api: httpx.AsyncClient, proxy: Party, wiki: Party, tokens: Tokens, ended: str
) -> None:
    """The one that had signed the person in, one that acted on the way, the last: for a token known here, and anew."""
    middle = await an_actor(api, name="Middle")
    stranger = await an_actor(api, name="Stranger")
    first = (await exchange(middle, tokens["access_token"])).json()
    second = (await exchange(proxy, first["access_token"])).json()
    await sync_to_async(client_units.disable)(stranger.client.pk)
    for _ in range(2):
        assert (await api.get(VERIFY, headers=bearer(second))).status_code == 204
    party = {"wiki": wiki, "middle": middle, "proxy": proxy}[ended]
    await sync_to_async(client_units.disable)(party.client.pk)
    assert (await api.get(VERIFY, headers=bearer(second))).status_code == 401
    token_cache().clear()
    assert (await api.get(VERIFY, headers=bearer(second))).status_code == 401
    assert (await api.get(VERIFY, headers=bearer(tokens))).status_code == (401 if ended == "wiki" else 204)


async def test_actors_in_a_row(api: httpx.AsyncClient, proxy: Party, tokens: Tokens) -> None:
    """Each names those before it; the fifth is refused."""
    names: list[str] = []
    token = tokens["access_token"]
    for number in range(4):
        actor = await an_actor(api, name=f"Service {number}")
        names.insert(0, str(actor.client.pk))
        token = (await exchange(actor, token)).json()["access_token"]
    act, found = said(token)["act"], []
    while act:
        found.append(act["sub"])
        act = act.get("act")
    assert found == names
    await refused(proxy, token)


async def test_what_is_not_exchanged(proxy: Party, robot: Party, tokens: Tokens, pair: Pair) -> None:
    """Other types and texts, actors, other targets, a client's own token."""
    good = tokens["access_token"]
    own = (await robot.post(TOKEN, grant_type="client_credentials")).json()["access_token"]
    for token in (tokens["id_token"], tokens["refresh_token"], own, good + "x", "x", pair["refresh_token"]):
        await refused(proxy, token)
    other = "urn:ietf:params:oauth:token-type:"
    for changes in (
        {"subject_token": ""}, {"subject_token_type": ""}, {"subject_token_type": f"{other}id_token"},
        {"requested_token_type": f"{other}refresh_token"}, {"actor_token": good},
        {"actor_token": good, "actor_token_type": ACCESS_TOKEN}, {"actor_token_type": ACCESS_TOKEN},
    ):  # fmt: skip
        await refused(proxy, good, **changes)
    for name in ("audience", "resource"):
        await refused(proxy, good, "invalid_target", **{name: "https://elsewhere.example"})
        assert (await exchange(proxy, good, **{name: said(good)["aud"]})).status_code == 200
    assert (await exchange(proxy, pair["access_token"])).json()["scope"] == "account"


async def test_it_reads_and_changes_nothing(proxy: Party, pair: Pair, member: Member) -> None:
    """With the scope account too: by the password, a factor or a new address the client would outlive the exchange."""
    token = (await exchange(proxy, pair["access_token"])).json()
    for path in (ME, "/api/v1/access/sessions"):
        assert (await proxy.api.get(path, headers=bearer(token))).status_code == 200
    change = {"current_password": PASSWORD, "new_password": "purple stoat mends 4 canoes"}
    acts = [
        ("POST", "/api/v1/access/password", change),
        ("POST", "/api/v1/access/email", {"new_email": "proxy@example.com", "password": PASSWORD}),
        ("POST", "/api/v1/access/mfa/totp", {}),
        ("PATCH", ME, {"name": "Proxy"}),
        ("DELETE", ME, {"password": PASSWORD}),
        ("GET", f"{ME}/export", None),
    ]
    for method, path, body in acts:
        answer = await proxy.api.request(method, path, json=body, headers=bearer(token))
        assert (answer.status_code, answer.json()["code"]) == (403, "delegated_token"), (path, answer.text)
    assert (await proxy.api.get(ME, headers=bearer(pair))).json()["name"] != "Proxy"
    assert (await proxy.api.post(acts[0][1], json=change, headers=bearer(pair))).status_code == 200


async def test_who_may(api: httpx.AsyncClient, wiki: Party, tokens: Tokens) -> None:
    """A client with the grant, that can keep a secret."""
    await refused(wiki, tokens["access_token"], "unauthorized_client")
    public = await an_actor(api, auth_method=OAuthClient.AuthMethod.NONE)
    await refused(public, tokens["access_token"], "unauthorized_client")


async def test_bound_tokens(proxy: Party, wiki: Party, member: Member) -> None:
    """A token bound to a key is exchanged by who has the key, for one of the same key."""
    key = new_key()
    wiki.headers = {"DPoP": proof(key, "POST", TOKEN)}
    token = (await wiki.redeem(await a_code(wiki, member))).json()["access_token"]
    await refused(proxy, token)
    proxy.headers = {"DPoP": proof(new_key(), "POST", TOKEN)}
    await refused(proxy, token)
    proxy.headers = {"DPoP": proof(key, "POST", TOKEN)}
    answer = (await exchange(proxy, token)).json()
    assert (answer["token_type"], said(answer["access_token"])["cnf"]) == ("DPoP", {"jkt": key.thumbprint()})


async def test_subjects_and_revocation(proxy: Party, wiki: Party, tokens: Tokens, member: Member) -> None:
    """A pairwise client learns no public id; giving the token back ends no other session."""
    pairwise = await an_actor(proxy.api, subject_type="pairwise", sector="actor.example.com")
    answer = (await exchange(pairwise, tokens["access_token"])).json()
    assert said(answer["access_token"])["sub"] != member["id"]
    assert (await proxy.api.get(VERIFY, headers=bearer(answer))).status_code == 204
    told = await pairwise.post(REVOKE, token=answer["access_token"])
    assert (told.status_code, told.json()["error"]) == (400, "unsupported_token_type")
    assert (await wiki.introspect(tokens["access_token"]))["active"]
