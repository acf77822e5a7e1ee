"""Sign in with Apple: its secret is signed for each request, its answer comes by POST, the name once and beside it."""

import base64
import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.core.management import CommandError, call_command
from joserfc import jwt
from joserfc.jwk import ECKey

from accounts.federation.kinds.apple import Apple
from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into, unsealed
from accounts.users.models import User
from tokens.oauth.tests.walk import send
from tokens.upstream import client_secret, providers
from tokens.upstream.client_secret import InvalidSecretError
from tokens.upstream.tests.provider import CLIENT_ID, FakeProvider
from tokens.upstream.tests.walk import UPSTREAM, is_in, noted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

TEAM, KEY_ID = "TEAM123456", "KEY7890123"


def pem(curve: ec.EllipticCurve | None = None) -> str:
    """Return a private key as Apple's file has it."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize("as_typed", [str, str.split], ids=["the file", "one line of a form"])
def test_the_secret_is_signed_with_the_teams_key(as_typed: Any) -> None:
    """ES256, by the key's name, from the team, for the client, to Apple, for minutes; line ends do not matter."""
    text = pem()
    lines = as_typed(text.replace(" PRIVATE KEY", "_PRIVATE_KEY"))
    typed = (lines if isinstance(lines, str) else "".join(lines)).replace("_PRIVATE_KEY", " PRIVATE KEY")
    made = client_secret.signed(f"{TEAM} {KEY_ID} {typed}", client_id="web", audience="https://apple.example")
    token = jwt.decode(made, ECKey.import_key(text), algorithms=["ES256"])
    assert token.header == {"alg": "ES256", "kid": KEY_ID, "typ": "JWT"}
    named = {name: token.claims[name] for name in ("iss", "sub", "aud")}
    assert named == {"iss": TEAM, "sub": "web", "aud": "https://apple.example"}
    assert token.claims["exp"] - token.claims["iat"] == client_secret.LIFE_S


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "a secret",
        f"{TEAM} {KEY_ID}",
        f"{TEAM[1:]} {KEY_ID} {pem()}",
        f"{TEAM} {KEY_ID} -----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        f"{TEAM} {KEY_ID} {pem(ec.SECP384R1())}",
    ],
)
def test_what_is_no_such_key(typed: str, monkeypatch: Any, capsys: Any) -> None:
    """The operator is told what is missing, before anything is stored."""
    with pytest.raises(InvalidSecretError, match=r"\.p8"):
        client_secret.require_usable(typed)
    monkeypatch.setattr("sys.stdin", _Typed(typed))
    with pytest.raises(CommandError, match=r"\.p8|standard input"):
        call_command("upstream_provider", "add", "apple", "--kind", "apple", "--client-id", "web")
    assert not UpstreamProvider.objects.exists()


def test_the_command_takes_the_whole_file(monkeypatch: Any, capsys: Any) -> None:
    """All lines of standard input are the secret; the logout address is told."""
    text = f"{TEAM} {KEY_ID}\n{pem()}"
    monkeypatch.setattr("sys.stdin", _Typed(text))
    call_command("upstream_provider", "add", "apple", "--kind", "apple", "--client-id", "web", "--updates-name")
    row = UpstreamProvider.objects.get()
    assert unsealed(row) == text.strip()
    assert (row.trusts_email, row.updates_name) == (True, True)
    assert "/oauth/upstream/apple/logout" in capsys.readouterr().out


class _Typed:
    """Standard input with this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self) -> str:
        """Return all of it."""
        return self._text


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ('{"name": {"firstName": "Ann", "lastName": "Lee"}}', "Ann Lee"),
        ('{"name": {"firstName": "Ann"}}', "Ann"),
        ('{"name": "Ann"}', ""),
        ("[1]", ""),
        ("{", ""),
        ("", ""),
    ],
)
async def test_the_first_sign_in(
    api: httpx.AsyncClient, provider: FakeProvider, monkeypatch: Any, user: str, name: str
) -> None:
    """The answer by POST becomes a GET; the name beside the token is taken, a broken one is none."""
    monkeypatch.setattr(Apple, "issuer", provider.issuer)
    row = UpstreamProvider(slug="apple", name="Apple", kind="apple", issuer=provider.issuer, client_id=CLIENT_ID)
    row.trusts_email = True
    seal_into(row, f"{TEAM} {KEY_ID} {pem()}")
    await row.asave()
    providers.outdated()
    provider.document = {
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "authorization_response_iss_parameter_supported": False,
    }
    provider.claims = {"name": None, "email_verified": "true"}
    sent_secrets: list[str] = []
    provider.check = lambda form, _: sent_secrets.append(form["client_secret"])
    page = await api.get("/account/signin")
    asked = noted(provider, await send(api, page, UPSTREAM, provider="apple"))
    assert asked["response_mode"] == "form_post"
    form = {"state": asked["state"], "code": "c0de", **({"user": user} if user else {})}
    posted = await api.post(f"{UPSTREAM}/apple", data=form)
    assert posted.status_code == 303
    assert is_in(await api.get(posted.headers["location"], headers={"Sec-Fetch-Site": "cross-site"}))
    made = await sync_to_async(User.objects.get)()
    assert (made.email, made.name) == ("ann@example.com", name)
    assert " ".join(filter(None, (made.given_name, made.family_name))) == name
    body = sent_secrets[0].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert (claims["iss"], claims["sub"]) == (TEAM, CLIENT_ID)
