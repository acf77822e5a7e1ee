"""Sender-constrained tokens (RFC 9449): every check of a proof, what is bound, and where it is accepted."""

import base64
import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.http import HttpRequest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from conftest import bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import UsedOnce
from tokens.clients import dpop
from tokens.clients.models import OAuthClient
from tokens.errors import InvalidProof
from tokens.oauth.models import PushedRequest
from tokens.oauth.tests.flow import TOKEN, Party
from tokens.oauth.tests.material import ED25519_JWK
from tokens.oauth.tests.proofs import new_key, proof, shown
from tokens.oauth.tests.walk import request_of
from tokens.oauth.token.tests.test_token_code import a_code, said
from tokens.protocol import PROOF_ALGORITHMS
from tokens.sessions import authentication
from tokens.sessions.models import Session
from tokens.tests.browser import ME, VERIFY, Member, Pair
from tokens.tests.test_vectors import RFC

USERINFO = "/oauth/userinfo"
PAR = "/oauth/par"
SCOPES = ["openid", "profile", "email", "offline_access", "account"]
KEY = new_key()
BAD = {
    "header": [
        {"typ": "JWT"}, {"typ": "at+jwt"}, {"typ": None}, {"alg": "none"}, {"jwk": None}, {"jwk": "x"}, {"jwk": {}},
        {"jwk": KEY.as_dict(private=True)}, {"jwk": new_key().as_dict(private=False)}, {"jwk": ED25519_JWK},
        {"jwk": {"kty": "oct", "k": "c2VjcmV0"}}, {"crit": ["x"], "x": 1}, {"b64": True}, {"alg": "HS256"}, {"alg": []},
    ],
    "claims": [
        {"htm": "GET"}, {"htm": "post"}, {"htm": None}, {"htu": None}, {"htu": "x"}, {"htu": "http://localhost:8000"},
        {"htu": "https://localhost:8000/oauth/token"}, {"htu": "http://localhost/oauth/token"},
        {"htu": "http://u@localhost:8000/oauth/token"}, {"htu": "http://localhost:8000/oauth/token/"},
        {"htu": "http://localhost:99999/oauth/token"}, {"iat": None}, {"iat": "1"}, {"iat": True}, {"iat": 0},
        {"jti": None}, {"jti": ""}, {"jti": 7}, {"htu": "http://localhost:8000/\ud800"}, {"htu": "http://\ud800/"},
    ],
}  # fmt: skip


def a_request(text: str, method: str = "POST", path: str = "/oauth/token") -> HttpRequest:
    """Return a request with this proof."""
    request = HttpRequest()
    request.method, request.path_info, request.META = method, path, {"HTTP_DPOP": text}
    return request


def refused(text: str, token: str | None = None) -> str:
    """Return why a proof for the token endpoint is refused, "" when it is not."""
    try:
        dpop.verified(a_request(text), token=token)
    except InvalidProof as error:
        return error.reason
    return ""


@pytest.mark.parametrize("name", ["rfc9449-dpop-proof-token-request", "rfc9449-dpop-proof-refresh-request"])
def test_the_proofs_of_the_rfc(name: str, settings: Any) -> None:
    """They are good at their address and time, and their key is known by its thumbprint."""
    vector = RFC[name]
    settings.IRONAUTH_ISSUER = "https://server.example.com"
    with clock.shifted(vector["claims"]["iat"] - clock.unix()):
        found = dpop.verified(a_request(vector["proof"], path="/token"))
        assert found.jkt == vector["jkt"]
        with pytest.raises(InvalidProof):
            dpop.verified(a_request(vector["proof"], path="/tokens"))
    with pytest.raises(InvalidProof):
        dpop.verified(a_request(vector["proof"], path="/token"))


def test_the_resource_proof_of_the_rfc(settings: Any) -> None:
    """RFC 9449 §7.1: with the hash of the very token."""
    vector = RFC["rfc9449-dpop-proof-resource-request"]
    settings.IRONAUTH_ISSUER = "https://resource.example.org"
    token = vector["access_token"]
    request = a_request(vector["proof"], vector["claims"]["htm"], "/protectedresource")
    with clock.shifted(vector["claims"]["iat"] - clock.unix()):
        assert dpop.verified(request, token=token).jkt == vector["jkt"]
        assert dpop.ath_of(token) == vector["claims"]["ath"]
        with pytest.raises(InvalidProof):
            dpop.verified(request, token=token + "x")


@pytest.mark.parametrize("header", BAD["header"])
def test_each_member_of_the_header_wrong_once(header: dict[str, Any]) -> None:
    """RFC 9449 §4.3, 4 to 7: type, algorithm, a public key, and a signature by it."""
    good = proof(KEY, "POST", TOKEN)
    assert refused(good) == ""
    members = {"typ": "dpop+jwt", "alg": "ES256", "jwk": KEY.as_dict(private=False), **header}
    text = json.dumps({name: value for name, value in members.items() if value is not None})
    head = base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
    assert refused(f"{head}.{good.split('.', 1)[1]}")


def test_what_nobody_here_knows_is_ignored() -> None:
    """In the header and among the claims (RFC 7515 §4, RFC 7519 §4); where `crit` says that it counts: above."""
    assert refused(proof(KEY, "POST", TOKEN, header={"extra": "x"}, extra={"more": 1})) == ""


@pytest.mark.parametrize("more", [{"x5c": 5}, {"x5u": []}, {"key_ops": ["verify", []]}, {"ext": "y"}])
def test_what_else_a_key_says_means_nothing(more: dict[str, Any]) -> None:
    """However malformed: the key is its numbers, and its thumbprint that of them (RFC 7638 §3)."""
    text = proof(KEY, "POST", TOKEN, header={"jwk": {**KEY.as_dict(private=False), **more}})
    assert dpop.verified(a_request(text)).jkt == KEY.thumbprint()


@pytest.mark.parametrize("claims", BAD["claims"])
def test_each_claim_wrong_once(claims: dict[str, Any]) -> None:
    """RFC 9449 §4.3, 3 and 8 to 11: what is required, method, address and time."""
    assert refused(proof(KEY, "POST", TOKEN, **claims)) in {"claims", "payload", *claims}


def test_a_key_for_one_algorithm_is_good_for_no_other() -> None:
    """The alg that a key names is the alg of the header (RFC 7517 §4.4), where a key could do both."""
    key = RSAKey.generate_key(2_048)
    for named, good in (("RS256", True), ("PS256", False)):
        jwk = {**key.as_dict(private=False), "alg": named}
        assert (refused(proof(key, "POST", TOKEN, header={"alg": "RS256", "jwk": jwk})) == "") is good


def test_what_stands_for_a_used_proof() -> None:
    """It is its key's alone, whatever others call theirs, and is kept until the minute of the proof is over."""
    now, other = int(clock.unix()), new_key()
    first, again, foreign = (
        dpop.verified(a_request(proof(key, "POST", TOKEN, jti="same", iat=now))) for key in (KEY, KEY, other)
    )
    assert first.id == again.id != foreign.id
    assert first.expires_at == now + 61


@pytest.mark.parametrize("text", ["", "x", "a.b", "a.b.c", "é.b.c", "x" * 5_000])
def test_what_is_no_jwt(text: str) -> None:
    """Nothing that can be sent is more than a refusal; nor are two proofs, which arrive joined."""
    assert refused(text)
    good = proof(KEY, "POST", TOKEN)
    assert refused(f"{good},{good}") == "text"
    assert refused(good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")) == "signature"


@pytest.mark.parametrize(("age_s", "reason"), [(59, ""), (61, "iat"), (-59, ""), (-61, "iat")])
def test_a_proof_is_good_for_a_minute(age_s: int, reason: str) -> None:
    """59 s old or from 59 s ahead it is, 61 s it is not."""
    assert refused(proof(KEY, "POST", TOKEN, iat=clock.unix() - age_s)) == reason


@pytest.mark.parametrize("htu", ["HTTP://LOCALHOST:8000/oauth/token", "http://localhost:8000/oauth/token?a=b#c",
                                 "http://localhost:8000/oauth/%74oken"])  # fmt: skip
def test_spellings_of_an_address(htu: str) -> None:
    """Compared normalised, without query and fragment (RFC 9449 §4.3)."""
    assert refused(proof(KEY, "POST", TOKEN, htu=htu)) == ""


@pytest.mark.parametrize("alg", PROOF_ALGORITHMS)
def test_algorithms(alg: str) -> None:
    """Every algorithm that the metadata name is accepted, and its key's thumbprint is RFC 7638's."""
    key: Any = (
        {"E": OKPKey.generate_key("Ed25519"), "R": RSAKey.generate_key(2048), "P": RSAKey.generate_key(2048)}[alg[0]]
        if alg != "ES256"
        else KEY
    )
    found = dpop.verified(a_request(proof(key, "POST", TOKEN, header={"alg": alg})))
    assert found.jkt == key.thumbprint()


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_weak_keys_and_other_curves() -> None:
    """RSA under 2,048 bits and curves that are not named are no keys."""
    for key, alg in ((RSAKey.generate_key(1024), "RS256"), (ECKey.generate_key("P-384"), "ES384")):
        assert refused(proof(key, "POST", TOKEN, header={"alg": alg})) in {"jwk", "alg"}


def test_the_token_is_named() -> None:
    """At an API a proof names the token; one for another token, or none, is refused."""
    assert refused(proof(KEY, "POST", TOKEN, token="a.b.c"), "a.b.c") == ""
    assert refused(proof(KEY, "POST", TOKEN, token="a.b.d"), "a.b.c") == "ath"
    assert refused(proof(KEY, "POST", TOKEN), "a.b.c") == "ath"


async def bound(party: Party, member: Member, **changes: Any) -> Any:
    """Return bound tokens of the member."""
    party.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
    answer = await party.redeem(await a_code(party, member, scope=" ".join(SCOPES), **changes))
    party.headers = {}
    assert answer.status_code == 200, answer.text
    return answer.json()


async def allow_all(party: Party) -> Party:
    """Let the client have every scope."""
    party.client.scopes = SCOPES
    await sync_to_async(party.client.save)()
    return party


pytest_storage = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


class TestServed:
    """At the server."""

    pytestmark = pytest_storage

    async def test_bound_tokens(self, wiki: Party, gateway: Party, api: httpx.AsyncClient, member: Member) -> None:
        """With proof they are good, once each; as bearer tokens, warm, cold or in a cookie, nowhere."""
        tokens = await bound(await allow_all(wiki), member)
        assert (tokens["token_type"], said(tokens["access_token"])["cnf"]) == ("DPoP", {"jkt": KEY.thumbprint()})
        found = await gateway.introspect(tokens["access_token"])
        assert (found["active"], found["token_type"], found["cnf"]) == (True, "DPoP", {"jkt": KEY.thumbprint()})
        token = tokens["access_token"]
        for _ in ("warm", "cold"):
            for path in (ME, USERINFO):
                headers = shown(token, KEY, "GET", path)
                assert (await api.get(path, headers=headers)).status_code == 200, path
                again = await api.get(path, headers=headers)
                assert (again.status_code, "invalid_dpop_proof" in again.headers["www-authenticate"]) == (401, True)
            for path in (ME, USERINFO, VERIFY):
                for headers in (bearer(tokens), {"Cookie": f"access_token={token}"}):
                    answer = await api.get(path, headers=headers)
                    assert answer.status_code == 401, path
                assert authentication.peek(token) is None
            answer = await api.get(ME, headers=bearer(tokens))
            assert answer.headers["www-authenticate"].startswith('DPoP realm="ironauth", algs="ES256 ')
            token_cache().clear()

    @pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
    @pytest.mark.parametrize(
        ("alg", "profile", "status"),
        [("RS256", "oauth2.1", 200), ("RS256", "fapi2", 401), ("PS256", "fapi2", 200)],
    )
    async def test_what_signs_at_the_resource(
        self, wiki: Party, api: httpx.AsyncClient, member: Member, alg: str, profile: str, status: int
    ) -> None:
        """A client of the profile fapi2 signs no proof by RS256 there either (FAPI 2.0 §5.4.1)."""
        key = RSAKey.generate_key(2048)
        wiki.headers = {"DPoP": proof(key, "POST", TOKEN, header={"alg": "PS256"})}
        answer = await wiki.redeem(await a_code(wiki, member))
        assert answer.status_code == 200, answer.text
        wiki.client.profile = profile
        await sync_to_async(wiki.client.save)()
        token_cache().clear()
        token = answer.json()["access_token"]
        for _ in ("cold", "warm"):
            asked = await api.get(USERINFO, headers=shown(token, key, "GET", USERINFO, header={"alg": alg}))
            assert asked.status_code == status, asked.text

    async def test_where_proofs_do_not_help(
        self, wiki: Party, api: httpx.AsyncClient, member: Member, pair: Pair
    ) -> None:
        """Another's key, no proof, another method, another address, an unbound token, two credentials, forward-auth."""
        token = (await bound(await allow_all(wiki), member))["access_token"]
        good = shown(token, KEY, "GET", ME)
        for headers in (
            shown(token, new_key(), "GET", ME), {"Authorization": f"DPoP {token}"}, shown(token, KEY, "POST", ME),
            shown(token, KEY, "GET", USERINFO), shown(pair["access_token"], KEY, "GET", ME),
            shown(token + "x", KEY, "GET", ME), {**good, "Authorization": f"Bearer {token}"},
        ):  # fmt: skip
            answer = await api.get(ME, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"][:4] in {"DPoP", "Bear"}) == (401, True)
        used = await UsedOnce.objects.filter(key__startswith="proof:").acount()
        assert used == 1, "only what lets somebody in is worth a row"
        both = {**good, "Cookie": f"access_token={pair['access_token']}"}
        assert (await api.get(ME, headers=both)).json()["code"] == "two_credentials"
        twice = {**good, "Authorization": f"DPoP {token}, DPoP {token}"}
        assert (await api.get(ME, headers=twice)).status_code == 400
        assert (await api.get(VERIFY, headers=shown(token, KEY, "GET", VERIFY))).status_code == 401
        assert (await api.get(ME, headers=good)).status_code == 200

    async def test_the_token_endpoint(self, wiki: Party, member: Member) -> None:
        """A bad proof is invalid_dpop_proof and uses nothing up; a used one is used in every way."""
        code = await a_code(wiki, member)
        wiki.headers = {"DPoP": proof(KEY, "GET", TOKEN)}
        answer = await wiki.redeem(code)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_dpop_proof")
        wiki.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
        assert (await wiki.redeem(code)).json()["token_type"] == "DPoP"
        assert (await wiki.redeem(await a_code(wiki, member))).json()["error"] == "invalid_dpop_proof"

    async def test_strangers_leave_no_proofs_behind(self, app: Party, wiki: Party, member: Member) -> None:
        """Anybody can name a public client: what got nothing is not kept, what got tokens is; another client's is."""
        rows = UsedOnce.objects.filter(key__startswith="proof:")
        app.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
        for _ in range(2):
            assert (await app.refresh("x")).json()["error"] == "invalid_grant"
            assert not await rows.aexists()
        assert (await app.redeem(await a_code(app, member))).json()["token_type"] == "DPoP"
        assert await rows.acount() == 1
        assert (await app.redeem(await a_code(app, member))).json()["error"] == "invalid_dpop_proof"
        assert (await app.refresh("x")).json()["error"] == "invalid_dpop_proof"
        assert await rows.acount() == 1
        wiki.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
        for error in ("invalid_grant", "invalid_dpop_proof"):
            assert (await wiki.refresh("x")).json()["error"] == error
        assert await rows.acount() == 2

    async def test_policies(self, wiki: Party, robot: Party, member: Member) -> None:
        """``off`` ignores proofs, ``required`` wants them, for a client's own tokens too."""
        for policy, sent, kind in (("off", True, "Bearer"), ("required", True, "DPoP"), ("optional", False, "Bearer")):
            for party in (wiki, robot):
                party.client.dpop = OAuthClient.Policy(policy)
                await sync_to_async(party.client.save)()
                party.headers = {"DPoP": proof(KEY, "POST", TOKEN)} if sent else {}
            assert (await wiki.redeem(await a_code(wiki, member))).json()["token_type"] == kind
            own = (await robot.post(TOKEN, grant_type="client_credentials")).json()
            assert (own["token_type"], "cnf" in said(own["access_token"])) == (kind, kind == "DPoP")

    async def test_bound_codes(self, wiki: Party, member: Member) -> None:
        """RFC 9449 §10: a code asked for with a key is redeemed with a proof of that key, and with nothing else."""
        code = await a_code(wiki, member, dpop_jkt=KEY.thumbprint())
        for key in (None, new_key()):
            wiki.headers = {"DPoP": proof(key, "POST", TOKEN)} if key else {}
            assert (await wiki.redeem(code)).json()["error"] == "invalid_grant"
        wiki.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
        assert (await wiki.redeem(code)).status_code == 200

    async def test_a_proof_with_a_pushed_request_binds_the_code(self, wiki: Party) -> None:
        """RFC 9449 §10.1: the proof says what dpop_jkt would, and must not say anything else."""
        wiki.headers = {"DPoP": proof(KEY, "POST", PAR)}
        assert (await wiki.post(PAR, **request_of(wiki.client))).status_code == 201
        assert (await PushedRequest.objects.aget()).parameters["dpop_jkt"] == KEY.thumbprint()
        wiki.headers = {"DPoP": proof(KEY, "POST", PAR)}
        answer = await wiki.post(PAR, **request_of(wiki.client), dpop_jkt=new_key().thumbprint())
        assert answer.json()["error"] == "invalid_request"

    async def test_refresh_tokens_of_public_clients_are_bound(self, app: Party, member: Member) -> None:
        """RFC 9449 §5: without the key nothing is refreshed and nothing used up; with it the next is bound as well."""
        tokens = await bound(await allow_all(app), member)
        session = await Session.objects.aget(client_id=str(app.client.pk))
        assert session.dpop_jkt == KEY.thumbprint()
        for key in (None, new_key()):
            app.headers = {"DPoP": proof(key, "POST", TOKEN)} if key else {}
            assert (await app.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
        app.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
        fresh = (await app.refresh(tokens["refresh_token"])).json()
        assert fresh["token_type"] == "DPoP"
        with clock.shifted(60):  # one used before, without the key, ends nothing either
            app.headers = {}
            assert (await app.refresh(tokens["refresh_token"])).status_code == 400
            app.headers = {"DPoP": proof(KEY, "POST", TOKEN)}
            assert (await app.refresh(fresh["refresh_token"])).status_code == 200

    async def test_those_of_confidential_clients_are_not(self, wiki: Party, member: Member) -> None:
        """They prove who they are in another way, and may change their key."""
        tokens, other = await bound(await allow_all(wiki), member), new_key()
        wiki.headers = {"DPoP": proof(other, "POST", TOKEN)}
        fresh = (await wiki.refresh(tokens["refresh_token"])).json()
        assert said(fresh["access_token"])["cnf"] == {"jkt": other.thumbprint()}

    async def test_metadata(self, api: httpx.AsyncClient, signing_key: str) -> None:
        """Clients learn what they may sign with."""
        found = (await api.get("/.well-known/openid-configuration")).json()
        assert found["dpop_signing_alg_values_supported"] == list(PROOF_ALGORITHMS)
