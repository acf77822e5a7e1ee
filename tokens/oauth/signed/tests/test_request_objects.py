"""Request objects (RFC 9101): signed by the client, for this server, for now, and all that counts of the request."""

import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from structlog.testing import capture_logs

from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.endpoint import MAX_BYTES
from tokens.oauth.models import PushedRequest
from tokens.oauth.signed.tests import material
from tokens.oauth.signed.tests.material import (
    STRANGER,
    claims_of,
    make_bank,
    opened,
    push,
    request_object,
    signed,
)
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.proofs import proof
from tokens.oauth.tests.walk import AUTHORIZE, ISSUER, answered, by_password, is_page, request_of
from tokens.tests.browser import Member

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning"),
]


@pytest.fixture
async def bank(signing_key: str) -> OAuthClient:
    """A client of FAPI 2.0 Message Signing."""
    return await sync_to_async(make_bank)()


@pytest.fixture
async def signer(signing_key: str) -> OAuthClient:
    """A client with a secret that signs its requests where it likes, and pushes none."""
    keys = material.public_keys()
    return (await sync_to_async(make_client)(trusted=True, jwks=keys, request_object_signing_alg="ES256"))[0]


async def link(api: httpx.AsyncClient, client: OAuthClient, text: str, **beside: str) -> httpx.Response:
    """Follow a link with a request object in it."""
    return await api.get(AUTHORIZE, params={"client_id": str(client.pk), "request": text, **beside})


async def test_a_pushed_object(api: httpx.AsyncClient, member: Member, bank: OAuthClient) -> None:
    """What is inside counts, and nothing beside it, pushed or in the address."""
    beside = {"scope": "openid email", "state": "outside", "redirect_uri": "https://evil.example/", "nonce": "outside"}
    pushed = await push(api, bank, request_object(bank, state="inside"), client_id=str(bank.pk), **beside)
    row = await PushedRequest.objects.aget()
    assert (row.parameters["scope"], row.parameters["nonce"]) == ("openid profile", "n-1")
    assert not row.parameters.keys() & {"request", "iss", "aud", "exp", "nbf", "client_assertion"}
    page = await opened(api, bank, pushed, state="outside")
    told = answered(await by_password(api, page, member["email"]))
    assert (told["state"], told["iss"]) == ("inside", ISSUER)
    assert told["code"]


async def test_an_object_in_the_address(api: httpx.AsyncClient, member: Member, signer: OAuthClient) -> None:
    """A client whose profile lets it sends it by the browser; a parameter that only stands outside is not used."""
    text = request_object(signer, state=None)
    page = await link(api, signer, text, state="outside", redirect_uri="https://evil.example/")
    told = answered(await by_password(api, page, member["email"]))
    assert "state" not in told
    assert told["code"]
    plain = await api.get(AUTHORIZE, params=request_of(signer))  # it need not sign
    assert answered(plain)["code"]


@pytest.mark.parametrize(
    ("alg", "registered"),
    [("PS256", "PS256"), ("ES256", "ES256"), ("EdDSA", "EdDSA"), ("Ed25519", "EdDSA")],
)
@pytest.mark.parametrize("typ", ["oauth-authz-req+jwt", "JWT", "application/oauth-authz-req+jwt", ...])
async def test_algorithms_and_types(
    api: httpx.AsyncClient, signing_key: str, alg: str, registered: str, typ: Any
) -> None:
    """Each algorithm that may be registered works, by the names that an object may have."""
    bank = await sync_to_async(make_bank)(request_object_signing_alg=registered)
    assert (await push(api, bank, signed(claims_of(bank), alg=alg, typ=typ))).status_code == 201


@pytest.mark.parametrize(
    ("alg", "registered", "profile", "status"),
    [
        ("RS256", "RS256", "oauth2.1", 201),
        ("RS256", "RS256", "fapi2", 400),
        ("RS256", "RS256", "fapi2-message-signing", 400),
        ("RS256", "PS256", "oauth2.1", 400),
        ("PS256", "ES256", "fapi2", 400),
        ("ES256", "EdDSA", "fapi2", 400),
    ],
)
async def test_no_other_algorithm_than_the_registered(
    api: httpx.AsyncClient, signing_key: str, alg: str, registered: str, profile: str, status: int
) -> None:
    """The client's other keys do not sign requests, and none by RS256 under FAPI 2.0, whatever is stored."""
    bank = await sync_to_async(make_bank)(request_object_signing_alg=registered, profile=profile)
    answer = await push(api, bank, signed(claims_of(bank), alg=alg))
    assert answer.status_code == status, answer.text
    assert answer.json().get("error") == (None if status == 201 else "invalid_request_object")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no issuer": ({"iss": None}, "claims"),
    "another issuer": ({"iss": "somebody"}, "client"),
    "no client": ({"client_id": None}, "claims"),
    "another client": ({"client_id": "somebody"}, "client"),
    "a client that is a number": ({"client_id": 5}, "claims"),
    "no audience": ({"aud": None}, "claims"),
    "another audience": ({"aud": "https://other.example"}, "audience"),
    "the token endpoint as audience": ({"aud": f"{ISSUER}/oauth/token"}, "audience"),
    "audiences without us": ({"aud": ["https://other.example"]}, "audience"),
    "no audience in a list": ({"aud": []}, "audience"),
    "an audience that is an object": ({"aud": {"a": ISSUER}}, "claims"),
    "no end": ({"exp": None}, "claims"),
    "an end in words": ({"exp": "tomorrow"}, "claims"),
    "no beginning": ({"nbf": None}, "nbf"),
    "a beginning in words": ({"nbf": "now"}, "claims"),
    "the client as subject": ({"sub": ...}, "subject"),
    "an object inside": ({"request": "eyJ"}, "nested"),
    "a reference inside": ({"request_uri": "https://app.example.com/object"}, "nested"),
    "a member that is null": ({"x": ["a", None]}, "member"),
    "a member that is true": ({"max_age": True}, "member"),
    "a member that is a fraction": ({"max_age": 1.5}, "member"),
    "a member that is a huge number": ({"max_age": 10**30}, "member"),
    "a member that is an empty list": ({"scope": []}, "member"),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_claims(api: httpx.AsyncClient, bank: OAuthClient, case: str) -> None:
    """Each is refused by the code of RFC 9101, with a cause in the log, and nothing is stored."""
    changes, cause = BAD[case]
    changes = {name: str(bank.pk) if value is ... else value for name, value in changes.items()}
    with capture_logs() as logs:
        answer = await push(api, bank, request_object(bank, **changes))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request_object"), answer.text
    assert [one["cause"] for one in logs if one["event"] == "request_object_refused"] == [cause]
    assert not await PushedRequest.objects.aexists()


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({"nbf": -3_600, "exp": 0}, False),
        ({"nbf": -3_599, "exp": 1}, True),
        ({"nbf": -3_600, "exp": 1}, False),  # lives 3,601 seconds
        ({"nbf": -3_601, "exp": -1}, False),
        ({"nbf": 0, "exp": 3_600}, True),
        ({"nbf": 0, "exp": 3_601}, False),
        ({"nbf": 8, "exp": 300}, True),
        ({"nbf": 60, "exp": 300}, True),
        ({"nbf": 61, "exp": 300}, False),
        ({"exp": 1}, True),
        ({"exp": 0}, False),
        ({"iat": 60}, True),
        ({"iat": 61}, False),
        ({"nbf": -4_200}, False),
    ],
)
async def test_times(
    api: httpx.AsyncClient, bank: OAuthClient, still_clock: float, changes: dict[str, int], good: bool
) -> None:
    """FAPI 2.0 Message Signing §5.3.1: ``nbf`` at most an hour ago, ``exp`` at most an hour after it."""
    said = {name: int(clock.unix()) + seconds for name, seconds in changes.items()}
    answer = await push(api, bank, request_object(bank, **said))
    assert answer.status_code == (201 if good else 400), answer.text


@pytest.mark.parametrize(("seconds", "good"), [(3_660, True), (3_661, False)])
async def test_without_a_beginning(
    api: httpx.AsyncClient, signer: OAuthClient, still_clock: float, seconds: int, good: bool
) -> None:
    """A client outside FAPI 2.0 may leave ``nbf`` out; the object ends within the hour all the same."""
    text = request_object(signer, nbf=None, exp=int(clock.unix()) + seconds)
    answer = await link(api, signer, text)
    assert is_page(answer, 200, "Password") if good else is_page(answer, 400, "signed request")


@pytest.mark.parametrize("aud", [ISSUER, [ISSUER], ["https://other.example", ISSUER]])
async def test_audiences(api: httpx.AsyncClient, bank: OAuthClient, aud: Any) -> None:
    """The issuer, or a list with it."""
    assert (await push(api, bank, request_object(bank, aud=aud))).status_code == 201


async def test_members_that_are_no_texts(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """Numbers and objects arrive as a query would have them (OpenID Connect Core §6.1)."""
    claims = {"id_token": {"email": {"essential": True}}}
    assert (await push(api, bank, request_object(bank, max_age=3_600, claims=claims))).status_code == 201
    stored = (await PushedRequest.objects.aget()).parameters
    assert stored["max_age"] == "3600"
    assert json.loads(stored["claims"]) == claims
    answer = await push(api, bank, request_object(bank, scope=["openid", "email"]))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")  # twice, as a query would say it


async def hostile(client: OAuthClient) -> dict[str, str]:
    """Return texts that are no request object of the client."""
    good = request_object(client)
    header, payload, signature = good.split(".")
    twice = json.dumps(claims_of(client)).encode()[:-1] + b',"scope":"openid email"}'
    return {
        "no text": "x",
        "two parts": f"{header}.{payload}",
        "four parts": f"{good}.{signature}",
        "no signature": f"{header}.{payload}.",
        "another signature": f"{header}.{payload}.{'A' * len(signature)}",
        "another payload": f"{header}.{payload[:-4]}AAAA.{signature}",
        "alg none": f"{material_none(client)}",
        "a stranger's key": signed(claims_of(client), key=STRANGER),
        "a stranger's key in the header": signed(
            claims_of(client), key=STRANGER, jwk=STRANGER.as_dict(private=False), kid=...
        ),
        "an unknown kid": signed(claims_of(client), kid="other"),
        "an extension": signed(claims_of(client), crit=["exp"], exp=1),
        "an assertion": signed(claims_of(client), typ="client-authentication+jwt"),
        "a proof": signed(claims_of(client), typ="dpop+jwt"),
        "an access token": signed(claims_of(client), typ="at+jwt"),
        "a typ that is a number": signed(claims_of(client), typ=5),
        "a member twice": signed(twice),
        "a list": signed(b"[1]"),
        "nested without end": signed(b'{"a":' + b"[" * 3_000),
        "half a character": signed(b'{"iss":"\\ud800"}'),
        "no UTF-8": signed(b"\xff\xfe"),
        "a number out of range": signed(b'{"exp":1e999}'),
        "encrypted": "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AAAA.AAAA.AAAA",
        "too long": request_object(client, x="x" * MAX_BYTES),
        "empty": " ",
    }


def material_none(client: OAuthClient) -> str:
    """Return an unsigned object with a signature's letters behind it."""
    payload = request_object(client).split(".")[1]
    return f"eyJhbGciOiJub25lIn0.{payload}.AAAA"


async def test_hostile_texts(api: httpx.AsyncClient, bank: OAuthClient, signer: OAuthClient) -> None:
    """Each is a clear refusal, pushed or in an address; none redirects to where it asks, none is an error of ours."""
    for case, text in (await hostile(bank)).items():
        answer = await push(api, bank, text)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request_object"), case
    for case, text in (await hostile(signer)).items():
        if len(text) > MAX_BYTES:
            continue
        assert is_page(await link(api, signer, text), 400, "signed request"), case
        evil = await link(api, signer, text, redirect_uri="https://evil.example/")
        assert is_page(evil, 400, "redirect_uri"), case
        told = answered(await link(api, signer, text, redirect_uri=REDIRECT_URI, state="s"))
        assert (told["error"], told["state"]) == ("invalid_request_object", "s"), case


@pytest.mark.parametrize("characters", [MAX_BYTES, MAX_BYTES + 1])
async def test_the_longest_object(api: httpx.AsyncClient, bank: OAuthClient, characters: int) -> None:
    """8,000 characters are read; of one more nothing is."""
    short = request_object(bank, x="")
    text = next(
        text
        for more in range((characters - len(short)) * 3 // 4 - 8, characters)
        if len(text := request_object(bank, x="x" * more)) >= characters
    )
    answer = await push(api, bank, text)
    assert answer.status_code == (201 if len(text) <= MAX_BYTES else 400), len(text)


async def test_what_a_signing_client_must_not_send(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """Its profile demands a signature; nothing may be there twice, nor another client, nor a reference."""
    unsigned = await api.post(material.PAR, data={**material.asserted(bank), **request_of(bank)})
    assert (unsigned.status_code, unsigned.json()["error"]) == (400, "invalid_request")
    assert "sign" in unsigned.json()["error_description"]
    text = request_object(bank)
    answer = await push(api, bank, text, request_uri="urn:ietf:params:oauth:request_uri:x")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    answer = await push(api, bank, text, client_id="other")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    answer = await api.post(material.PAR, data={**material.asserted(bank), "request": [text, text]})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert not await PushedRequest.objects.aexists()


async def test_another_clients_object(api: httpx.AsyncClient, bank: OAuthClient, signer: OAuthClient) -> None:
    """Of two clients with the same keys neither sends what the other has signed."""
    answer = await push(api, bank, request_object(signer))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request_object")
    assert is_page(await link(api, signer, request_object(bank)), 400, "signed request")


async def test_a_client_that_must_push(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """A signed request in the address does not stand in for PAR, and the error goes where the object says."""
    told = answered(await link(api, bank, request_object(bank, state="inside")))
    assert (told["error"], told["state"]) == ("invalid_request", "inside")
    unsigned = answered(await api.get(AUTHORIZE, params=request_of(bank)))
    assert unsigned["error"] == "invalid_request"


async def test_an_object_for_a_client_without_the_setting(api: httpx.AsyncClient, signing_key: str) -> None:
    """A good signature does not help: the client has not said that it signs."""
    other = await sync_to_async(make_bank)(profile="oauth2.1", request_object_signing_alg="", require_par=False)
    answer = await push(api, other, request_object(other), **request_of(other))
    assert (answer.status_code, answer.json()["error"]) == (400, "request_not_supported")
    told = answered(await api.get(AUTHORIZE, params={**request_of(other), "request": request_object(other)}))
    assert told["error"] == "request_not_supported"
    profile_alone = await sync_to_async(make_bank)(request_object_signing_alg="")  # no rule lets it be stored
    answer = await push(api, profile_alone, request_object(profile_alone))
    assert (answer.status_code, answer.json()["error"]) == (400, "request_not_supported")


async def test_dpop_and_hint_inside(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """A key bound inside has to be that of the proof; what else is judged of a request is judged of the object."""
    proven = {"DPoP": proof(STRANGER, "POST", material.PAR)}
    given = {**material.asserted(bank), "request": request_object(bank, dpop_jkt="A" * 43)}
    answer = await api.post(material.PAR, data=given, headers=proven)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    for changes, error in (
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"redirect_uri": None}, "invalid_request"),
        ({"scope": "unknown"}, "invalid_scope"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_mode": "fragment.jwt"}, "invalid_request"),
        ({"id_token_hint": "x"}, "invalid_request"),
        ({"state": "a\r\nb"}, "invalid_request"),
    ):
        answer = await push(api, bank, request_object(bank, **changes))
        assert (answer.status_code, answer.json()["error"]) == (400, error), changes
