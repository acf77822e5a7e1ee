"""Dynamic registration: who may, what is accepted, what comes of it (RFC 7591), and managing it (RFC 7592)."""

import json
import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from tokens.clients.dynamic import documented, units
from tokens.clients.dynamic.models import Registration, RegistrationToken
from tokens.clients.models import OAuthClient, digest_of
from tokens.oauth.tests.flow import Party, approve
from tokens.oauth.tests.material import ED25519_JWK, make_client
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

REGISTER = "/oauth/register"
CALLBACK = "http://127.0.0.1:33418/callback"
AGENT = {"client_name": "Agent", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none",
         "grant_types": ["authorization_code", "refresh_token"]}  # fmt: skip

BY_KEY = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [ED25519_JWK]}}

BY_ADDRESS = {"token_endpoint_auth_method": "private_key_jwt", "redirect_uris": ["https://app.example.com/cb"],
              "jwks_uri": "https://app.example.com/jwks"}  # fmt: skip
NO_TEXTS: list[Any] = [3, ["x"], {}, True]
#: What nothing is fetched from, whatever it is for.
NO_ADDRESSES: list[Any] = [
    "http://app.example.com/x", "https://10.0.0.1/x", "https://127.0.0.1/x", "https://localhost/x", "https://[::1]/x",
    "https://169.254.169.254/x", "https://app.example.com/x#y", "https://me@app.example.com/x", "file:///etc/passwd",
    "https://", "x", "https://app.example.com/\x00", "https://app.example.com/" + "x" * 2_000, 1, ["https://a.example"],
]  # fmt: skip


@pytest.fixture
def opened(settings: Settings) -> Settings:
    """Registration open to anybody."""
    settings.IRONAUTH_REGISTRATION = "open"
    return settings


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def registered(api: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    """Register an agent, and return what it is told."""
    said = {name: value for name, value in {**AGENT, **changes}.items() if value is not None}
    answer = await api.post(REGISTER, json=said)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def refused(answer: httpx.Response, status: int, error: str) -> bool:
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    return True


async def test_closed_it_is_not_there(api: httpx.AsyncClient, signing_key: str) -> None:
    """As it begins: no endpoint, not in the metadata, whatever is sent."""
    assert (await api.post(REGISTER, json=AGENT)).status_code == 404
    assert "registration_endpoint" not in (await api.get("/.well-known/openid-configuration")).json()


@pytest.mark.parametrize("name", ["openid-configuration", "oauth-authorization-server"])
@pytest.mark.parametrize("mode", ["token", "open"])
async def test_discovery(api: httpx.AsyncClient, settings: Settings, signing_key: str, mode: str, name: str) -> None:
    """The metadata name the endpoint while somebody may use it."""
    settings.IRONAUTH_REGISTRATION = mode
    said = (await api.get(f"/.well-known/{name}")).json()
    assert said["registration_endpoint"] == f"{settings.IRONAUTH_ISSUER}{REGISTER}"


@pytest.mark.parametrize("more", [{}, BY_KEY])
async def test_what_the_document_says(api: httpx.AsyncClient, opened: Settings, more: dict[str, Any]) -> None:
    """An answer has the members of the API's document, and its defaults where the client said nothing."""
    answer = await api.post(REGISTER, json={"redirect_uris": [CALLBACK], **more})
    assert answer.status_code == 201, answer.text
    told, said = answer.json(), documented.INFORMATION
    assert set(said["required"]) <= told.keys() <= said["properties"].keys()
    defaults = {name: member["default"] for name, member in said["properties"].items() if "default" in member}
    asked = {name: more[name] for name in defaults.keys() & more.keys()}
    assert {name: told[name] for name in defaults} == {**defaults, **asked}
    assert ("client_secret" in told, "jwks" in told) == (not more, bool(more))


async def test_an_agent_registers(api: httpx.AsyncClient, opened: Settings) -> None:
    """The answer has what is registered and a token to manage it; the row is a stranger's, of the profile agent."""
    told = await registered(api)
    row = await OAuthClient.objects.aget(pk=told["client_id"])
    assert (row.origin, row.profile, row.auth_method, row.is_unverified) == ("registered", "agent", "none", True)
    assert (row.trusted, row.administers, row.resource_server, row.require_pkce) == (False, False, False, True)
    assert told["redirect_uris"] == [CALLBACK]
    assert told["scope"] == "email offline_access openid profile"
    assert told["registration_client_uri"] == f"{opened.IRONAUTH_ISSUER}{REGISTER}/{told['client_id']}"
    assert "client_secret" not in told
    kept = await Registration.objects.aget(client=row)
    assert kept.digest == digest_of(told["registration_access_token"])
    event = await AuditEvent.objects.aget(event="client_registered")
    assert event.details["client"] == told["client_id"]
    assert told["registration_access_token"] not in json.dumps(event.details)


async def test_a_confidential_client_gets_its_secret_once(api: httpx.AsyncClient, opened: Settings) -> None:
    """Without a method it is client_secret_basic (RFC 7591 §2); reading shows no secret."""
    told = await registered(api, token_endpoint_auth_method=None, redirect_uris=["https://app.example.com/cb"])
    assert (told["token_endpoint_auth_method"], told["client_secret_expires_at"]) == ("client_secret_basic", 0)
    assert len(told["client_secret"]) >= 43
    read = await api.get(told["registration_client_uri"], headers=bearer(told["registration_access_token"]))
    assert "client_secret" not in read.json()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://app.example.com/cb"}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["data:text/html,x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.example.com/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example.com/cb#x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://me@app.example.com/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://*.example.com/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example.com/é"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"https://app.example.com/{at}" for at in range(51)]}, "invalid_redirect_uri"),
        ({"token_endpoint_auth_method": "client_secret_basic", "redirect_uris": ["com.example.app:/cb"]},
         "invalid_redirect_uri"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "client_secret_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": 1}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt", "redirect_uris": ["https://app.example.com/cb"]},
         "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt", "redirect_uris": ["https://app.example.com/cb"],
          "jwks": {"keys": [{**ED25519_JWK, "d": "x"}]}}, "invalid_client_metadata"),
        *(({**BY_ADDRESS, "jwks_uri": uri}, "invalid_client_metadata") for uri in NO_ADDRESSES),
        ({**BY_ADDRESS, **BY_KEY}, "invalid_client_metadata"),
        *(({"subject_type": "pairwise", "sector_identifier_uri": uri}, "invalid_client_metadata")
          for uri in NO_ADDRESSES),
        *(({name: uri}, "invalid_client_metadata") for name in ("logo_uri", "policy_uri", "tos_uri")
          for uri in NO_TEXTS),
        ({"request_uris": "https://app.example.com/r"}, "invalid_client_metadata"),
        ({"request_uris": [3]}, "invalid_client_metadata"),
        ({"request_object_signing_alg": "HS256"}, "invalid_client_metadata"),
        ({"request_object_signing_alg": ["RS256"]}, "invalid_client_metadata"),
        ({"request_object_signing_alg": "RS256"}, "invalid_client_metadata"),  # without keys
        ({"userinfo_signed_response_alg": "none"}, "invalid_client_metadata"),
        ({"userinfo_signed_response_alg": "HS256"}, "invalid_client_metadata"),
        ({"userinfo_signed_response_alg": 256}, "invalid_client_metadata"),
        ({"scope": "account roles users:read"}, "invalid_client_metadata"),
        ({"scope": "a\nb"}, "invalid_client_metadata"),
        ({"client_name": "x" * 81}, "invalid_client_metadata"),
        ({"client_name": "\u202eevil"}, "invalid_client_metadata"),
        ({"client_name": 3}, "invalid_client_metadata"),
        ({"dpop_bound_access_tokens": "yes"}, "invalid_client_metadata"),
        ({"id_token_signed_response_alg": "none"}, "invalid_client_metadata"),
        ({"subject_type": "secret"}, "invalid_client_metadata"),
    ],
)  # fmt: skip
async def test_refused(api: httpx.AsyncClient, opened: Settings, changes: dict[str, Any], error: str) -> None:
    """Each by its own error, in ASCII, and nothing is stored."""
    said = {name: value for name, value in {**AGENT, **changes}.items() if value is not None}
    answer = await api.post(REGISTER, json=said)
    assert refused(answer, 400, error)
    assert answer.json()["error_description"].isascii()
    assert await OAuthClient.objects.acount() == 0


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"a":1,"a":2}', b"null", b"\xff", b'{"client_name":"\\ud800"}'])
async def test_no_object(api: httpx.AsyncClient, opened: Settings, body: bytes) -> None:
    """What is no JSON object with one meaning is no metadata."""
    answer = await api.post(REGISTER, content=body, headers={"Content-Type": "application/json"})
    assert refused(answer, 400, "invalid_client_metadata")


@pytest.mark.parametrize("asked", ["openid roles", "openid account", "openid users:read clients:write"])
async def test_never_rights(api: httpx.AsyncClient, opened: Settings, asked: str) -> None:
    """Roles, the account and the admin API are left out of what it gets, as grants without a person are."""
    opened.IRONAUTH_REGISTRATION_SCOPES = ["openid", *asked.split()]  # even where a setting were to name them
    told = await registered(api, scope=asked, grant_types=["authorization_code", "client_credentials"])
    assert (told["scope"], told["grant_types"]) == ("openid", ["authorization_code"])


@pytest.mark.parametrize("most", [1, 2])
async def test_bounded_in_number(api: httpx.AsyncClient, opened: Settings, most: int) -> None:
    """Beyond IRONAUTH_REGISTRATION_MOST unverified clients the next is refused; a verified one makes room."""
    opened.IRONAUTH_REGISTRATION_MOST = most
    made = [await registered(api) for _ in range(most)]
    assert refused(await api.post(REGISTER, json=AGENT), 503, "temporarily_unavailable")
    await OAuthClient.objects.filter(pk=made[0]["client_id"]).aupdate(verified_at=clock.now())
    await registered(api)


async def test_a_flood_ends(api: httpx.AsyncClient, opened: Settings, throttled: None) -> None:
    """So many from one network in an hour, whatever comes of them; so many from all of them."""
    opened.IRONAUTH_THROTTLE_REGISTRATIONS, opened.IRONAUTH_THROTTLE_ALL_REGISTRATIONS = 2, 3
    for _ in range(2):
        await registered(api)
    answer = await api.post(REGISTER, json=AGENT)
    assert refused(answer, 429, "temporarily_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    elsewhere = {"X-Forwarded-For": "198.51.100.7"}
    opened.IRONAUTH_TRUSTED_PROXIES = ["127.0.0.1"]
    assert (await api.post(REGISTER, json=AGENT, headers=elsewhere)).status_code == 201
    assert (await api.post(REGISTER, json=AGENT, headers={"X-Forwarded-For": "203.0.113.9"})).status_code == 429


class TestTokensOfStaff:
    """IRONAUTH_REGISTRATION=token."""

    @pytest.fixture(autouse=True)
    def by_token(self, settings: Settings) -> None:
        settings.IRONAUTH_REGISTRATION = "token"

    async def _made(self, uses: int = 1, seconds: int = 60) -> str:
        ends = clock.now() + timedelta(seconds=seconds)
        make = sync_to_async(units.make_token)
        return (await make(label="Team", uses=uses, expires_at=ends, actor_id=None))[1]

    async def test_without_one(self, api: httpx.AsyncClient, signing_key: str) -> None:
        """No token, or none of ours, registers nothing."""
        for headers in ({}, bearer("x"), {"Authorization": "Basic eDp4"}):
            answer = await api.post(REGISTER, json=AGENT, headers=headers)
            assert refused(answer, 401, "invalid_token")
            assert answer.headers["www-authenticate"].startswith("Bearer")

    async def test_counted(self, api: httpx.AsyncClient, signing_key: str) -> None:
        """It registers as many as staff have said, and the trail names it."""
        token = await self._made(uses=2)
        answers = [await api.post(REGISTER, json=AGENT, headers=bearer(token)) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 401]
        row = await RegistrationToken.objects.aget()
        events = [event async for event in AuditEvent.objects.filter(event="client_registered")]
        assert {event.details["token"] for event in events} == {str(row.pk)}

    async def test_a_refused_registration_uses_nothing(self, api: httpx.AsyncClient, signing_key: str) -> None:
        """Bad metadata leave the token as it was."""
        token = await self._made()
        bad = await api.post(REGISTER, json={**AGENT, "redirect_uris": []}, headers=bearer(token))
        assert refused(bad, 400, "invalid_redirect_uri")
        assert (await api.post(REGISTER, json=AGENT, headers=bearer(token))).status_code == 201

    @pytest.mark.parametrize(("after_s", "status"), [(59, 201), (61, 401)])
    async def test_expires(self, api: httpx.AsyncClient, signing_key: str, after_s: int, status: int) -> None:
        """Until it ends, and no longer."""
        token = await self._made(seconds=60)
        with clock.shifted(after_s):
            assert (await api.post(REGISTER, json=AGENT, headers=bearer(token))).status_code == status

    async def test_ended(self, api: httpx.AsyncClient, signing_key: str) -> None:
        """Staff end it; the clients that used it stay."""
        token = await self._made(uses=2)
        assert (await api.post(REGISTER, json=AGENT, headers=bearer(token))).status_code == 201
        row = await RegistrationToken.objects.aget()
        assert await sync_to_async(units.end_token)(row.pk, actor_id=None)
        assert not await sync_to_async(units.end_token)(row.pk, actor_id=None)
        assert refused(await api.post(REGISTER, json=AGENT, headers=bearer(token)), 401, "invalid_token")
        assert await OAuthClient.objects.acount() == 1


class TestManaging:
    """RFC 7592."""

    async def test_read_change_delete(self, api: httpx.AsyncClient, opened: Settings) -> None:
        """With its token a client reads, replaces and deletes itself."""
        told = await registered(api)
        uri, by_token = told["registration_client_uri"], bearer(told["registration_access_token"])
        read = (await api.get(uri, headers=by_token)).json()
        assert read == told
        put = {**AGENT, "client_id": told["client_id"], "redirect_uris": ["https://agent.example.com/cb"]}
        changed = await api.put(uri, json=put, headers=by_token)
        assert changed.status_code == 200, changed.text
        row = await OAuthClient.objects.aget()
        assert (changed.json()["redirect_uris"], row.redirect_uris) == (put["redirect_uris"],) * 2
        assert (await api.delete(uri, headers=by_token)).status_code == 204
        assert await OAuthClient.objects.acount() == 0
        assert refused(await api.get(uri, headers=by_token), 401, "invalid_token")

    async def test_only_its_own(self, api: httpx.AsyncClient, opened: Settings) -> None:
        """Another client's token, none, or a wrong one opens nothing."""
        one, other = await registered(api), await registered(api)
        for headers in ({}, bearer("x"), bearer(other["registration_access_token"])):
            for method in ("GET", "PUT", "DELETE"):
                body = {**AGENT, "client_id": one["client_id"]} if method == "PUT" else None
                answer = await api.request(method, one["registration_client_uri"], json=body, headers=headers)
                assert refused(answer, 401, "invalid_token")
        assert await OAuthClient.objects.acount() == 2

    async def test_disabled(self, api: httpx.AsyncClient, opened: Settings) -> None:
        """A client that staff have disabled cannot change itself, nor go and come back."""
        told = await registered(api)
        await OAuthClient.objects.aupdate(disabled_at=clock.now())
        answer = await api.delete(told["registration_client_uri"], headers=bearer(told["registration_access_token"]))
        assert refused(answer, 401, "invalid_token")

    @pytest.mark.parametrize(
        "changes", [{"client_id": "other"}, {"client_id": None}, {"client_secret": "x"}, {"client_secret": 1}]
    )
    async def test_another_name(self, api: httpx.AsyncClient, opened: Settings, changes: dict[str, Any]) -> None:
        """The client_id has to be its own, and a secret the one it has (RFC 7592 §2.2)."""
        told = await registered(api)
        put = {**AGENT, "client_id": told["client_id"], **changes}
        answer = await api.put(
            told["registration_client_uri"], json=put, headers=bearer(told["registration_access_token"])
        )
        assert refused(answer, 400, "invalid_client_metadata")

    @pytest.mark.parametrize(
        ("changes", "still"),
        [({"scope": "openid"}, True), ({"client_name": "Your bank"}, False),
         ({"policy_uri": "https://bank.example/p"}, False), ({"tos_uri": "https://bank.example/t"}, False),
         ({"redirect_uris": ["https://evil.example.com/cb"]}, False)],
    )  # fmt: skip
    async def test_a_change_of_who_it_is_ends_verification(
        self, api: httpx.AsyncClient, opened: Settings, changes: dict[str, Any], still: bool
    ) -> None:
        """Staff have verified a name and its addresses: under others it is unverified again."""
        told = await registered(api)
        await OAuthClient.objects.aupdate(verified_at=clock.now())
        put = {**AGENT, "client_id": told["client_id"], **changes}
        answer = await api.put(
            told["registration_client_uri"], json=put, headers=bearer(told["registration_access_token"])
        )
        assert answer.status_code == 200, answer.text
        assert ((await OAuthClient.objects.aget()).verified_at is not None) is still


async def test_a_strangers_client_asks_about_nothing(api: httpx.AsyncClient, opened: Settings, member: Member) -> None:
    """It gets no token of its own, and hears nothing of tokens that are not its own."""
    told = await registered(api, token_endpoint_auth_method="client_secret_post",
                            redirect_uris=["https://app.example.com/cb"])  # fmt: skip
    other = Party(api, *await sync_to_async(make_client)())
    mine = {"client_id": told["client_id"], "client_secret": told["client_secret"]}
    answer = await api.post("/oauth/token", data={**mine, "grant_type": "client_credentials"})
    assert refused(answer, 400, "unauthorized_client")
    code = await sync_to_async(approve)(other.client, uuid.UUID(member["id"]))
    theirs = (await other.redeem(code)).json()["access_token"]
    shown = await api.post("/oauth/introspect", data={**mine, "token": theirs})
    assert shown.json() == {"active": False}
