"""JSON in which a member comes twice is refused wherever a stranger's JSON is read."""

import ast
import json
import uuid
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from joserfc import jws
from joserfc.jwk import ECKey

from accounts.admin.access import second_factor as admin_second_factor
from accounts.mfa.passkeys import ceremonies
from accounts.mfa.passkeys.facts import UnusableAnswer
from accounts.tests.authenticator import Authenticator
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.tests.test_bad_input import assert_problem
from ironauth.tests.test_house_rules import ROOT, python_files
from tokens.admin.client_form import KeysField
from tokens.clients import assertion as client_assertion
from tokens.clients import dpop
from tokens.clients.assertion import AssertionRefused
from tokens.clients.profiles import PROFILES
from tokens.clients.tests.test_dpop import a_request
from tokens.errors import InvalidProof
from tokens.oauth.authorize import sign_in_views
from tokens.oauth.tests.proofs import ISSUER

CHALLENGE = bytes(range(32))
KEY = ECKey.generate_key("P-256", {"kid": "k"})
KEYS = json.dumps({"keys": [KEY.as_dict(private=False)]})
#: Modules that read JSON in another way, and whose JSON it is.
OURS = {
    "ironauth/infrastructure/http/handler.py": "a problem document of ours",
    "accounts/pages/calls.py": "an answer of our own API",
    "accounts/pages/connected.py": "what a MAC of ours was checked for",
    "tokens/simplejwt/views.py": "a problem document of ours",
    "ironauth/infrastructure/telemetry/logs.py": "a line of our own log",
    "ironauth/infrastructure/telemetry/metrics.py": "a name of our own metrics",
    "ironauth/infrastructure/telemetry/metrics_export.py": "a name of our own metrics",
    "ironauth/infrastructure/core/strict_json.py": "the strict reader itself",
    "accounts/transfer/streams.py": "a file of the operator's, exported by another system",
    "accounts/transfer/records.py": "the same",
    "accounts/transfer/sources/django.py": "the same",
    "accounts/transfer/sources/keycloak.py": "the same",
    "accounts/transfer/sources/supabase.py": "the same",
    "ironauth/management/commands/demo.py": "an answer of our own server",
    "tokens/sessions/authentication.py": "a name to look up; the whole text is compared with one that was verified",
    "tokens/oauth/token/introspection.py": "a token of ours that was verified",
    "tokens/oauth/authorize/state.py": "a value under our own MAC",
    "tokens/oauth/token/exchange.py": "a token of ours that was verified",
    "tokens/details/lists.py": "what was read strictly before it was kept",
    "tokens/sessions/acting/banner.py": "a cookie's content that we sealed",
    "ironauth/pages.py": "our own OpenAPI document",
    "ironauth/infrastructure/api/openapi_examples.py": "a file of the product's own",
    "ironauth/config/table/branding.py": "a setting of the operator's",
}
READERS = {"loads", "load", "decode", "Decoder", "JSONDecoder", "raw_decode"}


def doubled(members: dict[str, Any], name: str, first: Any) -> bytes:
    """Return the JSON of ``members`` in which ``name`` comes first with another value: the last one is the good one."""
    return f"{{{json.dumps(name)}:{json.dumps(first)},{json.dumps(members)[1:]}".encode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("signing_key")
@pytest.mark.parametrize("path", ["signup", "signin", "refresh", "password/reset", "signin/mfa", "signin/passkey"])
async def test_bodies(api: httpx.AsyncClient, path: str) -> None:
    """The API refuses a body with a member twice before it looks at anything else."""
    body = doubled({"email": "mia@example.com", "password": PASSWORD}, "email", "other@example.com")
    answer = await api.post(f"/api/v1/access/{path}", content=body, headers={"Content-Type": "application/json"})
    assert "member twice" in assert_problem(answer, 400)["detail"]


@pytest.mark.parametrize("name", ["type", "challenge", "origin", "crossOrigin"])
def test_client_data_of_passkeys(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A passkey's answer whose clientDataJSON has a member twice proves nothing, though its signature is good."""
    device = Authenticator()
    creation = ceremonies.registration_options(
        challenge=CHALLENGE, user_id=uuid.uuid4(), email="mia@example.com", name="Mia", present=[]
    )
    assertion = ceremonies.assertion_options(challenge=CHALLENGE, verified=True)
    good = device.create(creation)
    made = ceremonies.verify_registration(good, challenge=CHALLENGE)
    single = device._client_data
    monkeypatch.setattr(device, "_client_data", lambda *said: doubled(json.loads(single(*said)), name, "x"))
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_registration(device.create(creation), challenge=CHALLENGE)
    answer = device.get(assertion)
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_assertion(answer, challenge=CHALLENGE, public_key=made.public_key, verified=True)


def signed(header: dict[str, Any], claims: bytes) -> str:
    """Return a token that the client's key has signed."""
    registry = jws.JWSRegistry(algorithms=["ES256"], strict_check_header=False)
    return jws.serialize_compact({"alg": "ES256", **header}, claims, KEY, registry=registry)


@pytest.mark.parametrize("twice", [False, True])
def test_assertions_of_clients(twice: bool) -> None:
    """An assertion with a claim twice is refused, whatever key has signed it; with each once it is good."""
    client_id, now = str(uuid.uuid4()), int(clock.unix())
    claims = {"iss": client_id, "sub": client_id, "aud": settings.IRONAUTH_ISSUER, "exp": now + 60, "jti": "j"}
    payload = doubled(claims, "aud", "https://other.example") if twice else json.dumps(claims).encode()
    with pytest.raises(AssertionRefused, match="payload") if twice else nullcontext():
        client_assertion.verified(
            signed({"kid": "k"}, payload), client_id=client_id, jwks=json.loads(KEYS), profile=PROFILES["oauth2.1"]
        )


@pytest.mark.parametrize("twice", [False, True])
def test_proofs_of_possession(twice: bool) -> None:
    """A proof with a claim twice is refused; with each once it is good."""
    claims = {"jti": "j", "htm": "POST", "htu": f"{ISSUER}/oauth/token", "iat": int(clock.unix())}
    payload = doubled(claims, "htu", "https://other.example") if twice else json.dumps(claims).encode()
    text = signed({"typ": "dpop+jwt", "jwk": KEY.as_dict(private=False)}, payload)
    with pytest.raises(InvalidProof) if twice else nullcontext():
        dpop.verified(a_request(text))


def test_keys_of_clients_in_the_admin() -> None:
    """The form for a client's keys takes a JWK set, and refuses one with a member twice."""
    assert KeysField().clean(KEYS) == json.loads(KEYS)
    with pytest.raises(ValidationError, match="member twice"):
        KeysField().clean(doubled(json.loads(KEYS), "keys", []).decode())


@pytest.mark.django_db
def test_keys_of_clients_in_a_file(tmp_path: Path) -> None:
    """The command for clients refuses a file of keys with a member twice."""
    path = tmp_path / "keys.json"
    path.write_bytes(doubled(json.loads(KEYS), "keys", []))
    with pytest.raises(CommandError, match="--jwks"):
        call_command(
            "oauth_client", "create", "--name=Bank", "--auth-method=private_key_jwt", "--grant=client_credentials",
            f"--jwks={path}",
        )  # fmt: skip


def test_answers_of_passkeys_in_forms() -> None:
    """A page takes no answer of a passkey that has a member twice, in the admin and on the way to a client."""
    text = doubled({"id": "a"}, "id", "b").decode()
    request: Any = SimpleNamespace(data={"credential": text})
    assert admin_second_factor._answer('{"id":"a"}') == {"id": "a"}
    assert admin_second_factor._answer(text) == {}
    assert sign_in_views._shown(request).credential is None


def test_nothing_reads_json_in_another_way() -> None:
    """Every module of the product that reads JSON by other means than the strict reader reads its own alone."""
    found = set()
    for file in python_files():
        name = str(file.relative_to(ROOT))
        if not name.startswith(("ironauth/", "accounts/", "tokens/")) or "/tests/" in name:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Attribute) or node.attr not in READERS:
                continue
            if (whose := ast.unparse(node.value)).endswith("json") and whose != "strict_json":
                found.add(name)
    assert "ironauth/infrastructure/core/strict_json.py" in found
    assert found <= OURS.keys()
