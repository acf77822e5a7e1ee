"""Everything that reads a token before it is verified does it within the decoder's bounds (RFC 8725 §2.4)."""

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from django.conf import settings
from django.http import HttpRequest

from tokens.access import codec, signed_tokens
from tokens.clients import assertion as client_assertion
from tokens.clients import dpop
from tokens.clients.assertion import AssertionRefused
from tokens.clients.profiles import PROFILES
from tokens.errors import InvalidProof, InvalidToken
from tokens.oauth.signed import request_objects
from tokens.sessions import authentication
from tokens.tests.material import NOW, Issuer, b64

HEADER: Final = b'{"alg":"EdDSA","kid":"k","typ":"at+jwt"}'
PAYLOAD: Final = b'{"jti":"j","iss":"c","sub":"c","aud":"a","exp":1'
DEEP: Final = 10_000
#: Texts that no reader may follow to their end, and none may fall over.
BROKEN: Final = {
    "payload nested 10,000 deep": (HEADER, PAYLOAD + b',"x":' + b"[" * DEEP),
    "payload nested as deep as a token of 4 KiB can be": (HEADER, PAYLOAD + b',"x":' + b"[" * 2_900),
    "a whole payload nested 33 deep": (HEADER, PAYLOAD + b',"x":' + b"[" * 32 + b"]" * 32 + b"}"),
    "header nested 10,000 deep": (HEADER[:-1] + b',"x":' + b"[" * DEEP, PAYLOAD + b"}"),
    "header nested as deep as a token of 4 KiB can be": (HEADER[:-1] + b',"x":' + b"[" * 2_900, PAYLOAD + b"}"),
    "a member of the payload twice": (HEADER, PAYLOAD + b',"sub":"d"}'),
    "a payload that is a list": (HEADER, b"[1]"),
    "a payload that is no UTF-8": (HEADER, b"\xff\xfe"),
    "a payload longer than 4 KiB": (HEADER, PAYLOAD + b',"x":"' + b"x" * 4_096 + b'"}'),
}


def with_proof(text: str) -> HttpRequest:
    """Return a request that brings this text as its proof of possession."""
    request = HttpRequest()
    request.method, request.path_info, request.META = "POST", "/oauth/token", {"HTTP_DPOP": text}
    return request


def refused(read: Callable[[], Any]) -> bool:
    """Return whether reading ends in the error that means so."""
    try:
        return read() in (None, "")
    except (InvalidToken, InvalidProof, AssertionRefused):
        return True


@pytest.mark.parametrize("case", BROKEN)
def test_every_reader_refuses_it(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nesting, size and members twice end in a refusal at each place that takes a token, and in no other error."""
    header, payload = BROKEN[case]
    text = f"{b64(header)}.{b64(payload)}.{'A' * 86}"
    keys = Issuer().keys
    jwks = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}
    signer: Any = SimpleNamespace(
        client_id="c", jwks=jwks, request_object_signing_alg="EdDSA", rules=PROFILES["fapi2-message-signing"]
    )
    readers: dict[str, Callable[[], Any]] = {
        "hot lane": lambda: authentication.peek(text),
        "introspection and exchange": lambda: authentication.known(text),
        "bearer": lambda: codec.decode(text, keys, now=NOW),
        "ID token hint": lambda: signed_tokens.verified(text, keys, typ="at+jwt", now=NOW),
        "client assertion": lambda: client_assertion.verified(
            text, client_id="c", jwks=jwks, profile=PROFILES["oauth2.1"]
        ),
        "request object": lambda: request_objects.parameters_of(text, signer, signer.jwks),
        "proof": lambda: dpop.verified(with_proof(text)),
    }
    assert [name for name, read in readers.items() if not refused(read)] == []


def test_the_client_of_an_assertion_is_read_within_the_bounds() -> None:
    """What names the client before the signature is known gives nothing for a text that is out of bounds."""
    good = f"{b64(HEADER)}.{b64(PAYLOAD + b'}')}.{'A' * 86}"
    assert client_assertion.named_client(good) == "c"
    for case in ("payload nested 10,000 deep", "a member of the payload twice", "a payload longer than 4 KiB"):
        header, payload = BROKEN[case]
        assert client_assertion.named_client(f"{b64(header)}.{b64(payload)}.{'A' * 86}") == "", case


@pytest.mark.parametrize("characters", [4_096, 4_097])
def test_the_longest_token_that_is_read(characters: int) -> None:
    """A text of 4,096 characters is read, one of 4,097 is not."""
    start = f"{b64(HEADER)}.{b64(PAYLOAD + b'}')}."
    text = start + "A" * (characters - len(start))
    assert refused(lambda: codec.payload_of(text)) is (characters > 4_096)
    assert refused(lambda: codec.header_of(text)) is (characters > 4_096)


@pytest.mark.parametrize(
    ("more", "good"),
    [({}, True), ({"crit": ["exp"], "exp": 1}, False), ({"b64": True}, False), ({"typ": "jwt"}, False)],
)
def test_a_token_for_clients_has_the_header_it_was_given(more: dict[str, Any], good: bool) -> None:
    """An extension or another type is refused under our own signature, too: no reader guesses what it means."""
    issuer = Issuer()
    text = issuer.sign({**issuer.header, "typ": "JWT", **more}, {"iss": "a"})
    assert (signed_tokens.verified(text, issuer.keys, typ="JWT", now=NOW) == {"iss": "a"}) is good


#: Modules of tokens/ that decode base64 or JSON, and of what. A token that is not verified is read by codec alone.
DECODERS: Final = {
    "tokens/access/codec.py": "every signed token",
    "tokens/keys/key_set.py": "keys of ours, from the database",
    "tokens/management/commands/oauth_client.py": "a file of the operator's",
    "tokens/clients/authentication.py": "HTTP Basic",
    "tokens/clients/keys.py": "numbers of keys, bounded there",
    "tokens/sessions/acting/banner.py": "what a seal of ours was opened for, in a cookie of bounded length",
    "tokens/upstream/exchange.py": "a provider's answer, bounded there; its ID token is read by tokens/access/codec.py",
    "tokens/oauth/signed/request_objects.py": "the parts of an object that its client has registered as unsigned",
    "tokens/clients/fetched/fetching.py": "what a client's address has, bounded there in bytes, which is no token",
    "tokens/upstream/services.py": "a name that Apple has the browser bring beside its code, which is no token",
    "tokens/details/lists.py": "a parameter of a request, which is no token, bounded there in bytes; and what is kept",
    "tokens/management/commands/authorization_details_type.py": "an option of the operator's",
    "tokens/oauth/claims.py": "a parameter of a request, which is no token; no longer than a request may be",
    "tokens/upstream/answers.py": "a name that Apple has the browser bring beside its code, which is no token",
    "tokens/oauth/authorize/pages.py": "what this process has encoded",
    "tokens/simplejwt/views.py": "a problem document that this process has written",
    "tokens/oauth/authorize/state.py": "what a MAC of ours was checked for",
    "tokens/oauth/authorize/sign_in_views.py": "an authenticator's answer, which is no token",
}
_DECODING: Final = frozenset({"b64decode", "urlsafe_b64decode", "decodebytes", "json_object", "Decoder", "JSONDecoder"})


def test_nothing_else_decodes() -> None:
    """A module of tokens/ that decodes base64 or JSON is one of those above: else it reads tokens without bounds."""
    root = Path(settings.BASE_DIR)
    found = {
        str(file.relative_to(root))
        for file in (root / "tokens").rglob("*.py")
        if "tests" not in file.parts and "migrations" not in file.parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and _decodes(node.func)
    }
    assert found <= DECODERS.keys()


def _decodes(called: ast.expr) -> bool:
    name = ast.unparse(called)
    last = name.rpartition(".")[2]
    return last in _DECODING or name.endswith(("json.loads", "json.decode", "strict_json.loads", "json.load"))
