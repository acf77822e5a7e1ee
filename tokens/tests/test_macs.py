"""MACs on the wire and in the database: fixed vectors, so that what was made by an older version stays good."""

import base64
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from accounts.lockout import rate_limits
from accounts.outbox import tokens as email_tokens
from accounts.passwords.formats import argon2
from ironauth.infrastructure.crypto import signed_values, stateless_token
from ironauth.infrastructure.crypto.master_keys import Purpose
from tokens.keys import pairwise
from tokens.sessions import refresh_token, sso_session

ID = UUID("0192a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b")
SECRET = bytes(range(32, 64))
OLD, NEW = "old", "new"


@pytest.fixture(autouse=True)
def keys(settings: Any) -> None:
    """Fixed keys: two master keys, of which the first is the newest, a pepper and SECRET_KEY."""
    settings.SECRET_KEY = "a fixed secret key for vectors, of more than fifty characters"
    settings.IRONAUTH_MASTER_KEYS = {NEW: bytes(range(32)), OLD: bytes(range(1, 33))}
    settings.IRONAUTH_PASSWORD_PEPPERS = {"p": bytes(range(2, 34))}


def test_a_refresh_token_is_the_same_text() -> None:
    """A session, a generation, its secret and its master key give this token, and it is genuine."""
    given = {"secret": SECRET, "master_key_id": OLD}
    text = refresh_token.mint(session_id=ID, generation=7, **given)  # type: ignore[arg-type] # both are as named
    assert text == "AZKhssPUfl-Ka3yNng8aKwAAAAdB9fwxZ2c2klT23azx77IQJl-Wewh3A9CDekW-o4AJ8w"
    parsed = refresh_token.parse(text)
    assert parsed is not None
    assert refresh_token.is_genuine(parsed, secret=SECRET, master_key_id=OLD)
    assert not refresh_token.is_genuine(parsed, secret=SECRET, master_key_id=NEW)
    assert not refresh_token.is_genuine(parsed, secret=SECRET[::-1], master_key_id=OLD)


def test_an_sso_cookie_is_the_same_text() -> None:
    """A session, its secret and its master key give this cookie, and it is genuine; not under a key that is gone."""
    text = sso_session.mint_cookie(session_id=ID, secret=SECRET, master_key_id=OLD)
    assert text == "AZKhssPUfl-Ka3yNng8aK7-wlOgpF9yXHXj7RWJp5JrJ1fSesEoyomS1ZghEkHhK"
    cookie = sso_session.parse_cookie(text)
    assert cookie is not None
    assert sso_session.is_genuine(cookie, secret=SECRET, master_key_id=OLD)
    assert not sso_session.is_genuine(cookie, secret=SECRET, master_key_id=NEW)
    assert not sso_session.is_genuine(cookie, secret=SECRET, master_key_id="gone")


def test_an_email_token_and_its_code_are_the_same_text() -> None:
    """A row gives this token and this code of six digits."""
    row: Any = SimpleNamespace(pk=ID, purpose="verify", nonce=SECRET, master_key_id=OLD)
    assert (email_tokens.text(row), email_tokens.code(row)) == (
        "AZKhssPUfl-Ka3yNng8aK_iECrq9QMaAWPbcvx7ZOmhwS2jMnfC8a7WsVLSmTyW5",
        "864709",
    )


def test_a_stateless_token_is_the_same_text_under_the_newest_key() -> None:
    """A purpose, a body and a context give this token; it opens for them alone, and under an older key too."""
    purpose = Purpose("ironauth vectors")
    text = stateless_token.mint(purpose, b"body", b"context")
    assert text == "Ym9keT81ojjLArxrQfukz3KwuCtaJkPk7teB9dnAi2pe1tNu"
    assert stateless_token.parse(purpose, text, 4, b"context") == b"body"
    assert stateless_token.parse(purpose, text, 4, b"other") is None
    assert stateless_token.parse(Purpose("ironauth other"), text, 4, b"context") is None


def test_a_stateless_token_under_an_older_key_is_accepted(settings: Any) -> None:
    """What the newest key made is good as long as the key is there."""
    purpose = Purpose("ironauth vectors")
    text = stateless_token.mint(purpose, b"body")
    settings.IRONAUTH_MASTER_KEYS = {OLD: bytes(range(1, 33)), NEW: bytes(range(32))}
    assert stateless_token.parse(purpose, text, 4) == b"body"
    settings.IRONAUTH_MASTER_KEYS = {OLD: bytes(range(1, 33))}
    assert stateless_token.parse(purpose, text, 4) is None


def test_a_value_in_redis_is_the_same_bytes() -> None:
    """A purpose and a payload give these bytes, which open for that purpose only."""
    sealed = signed_values.seal(b"vectors", b"payload")
    assert base64.b64encode(sealed).decode() == "l8ikxeaoxa6t1qoNOLoAj9BYLJU/3r2xk/16NCqSRb1wYXlsb2Fk"
    assert signed_values.unseal(b"vectors", sealed) == b"payload"
    with pytest.raises(signed_values.NotOurs):
        signed_values.unseal(b"other", sealed)


def test_the_key_of_a_count_is_the_same_text() -> None:
    """A kind and its parts give this key."""
    assert rate_limits.mac("signin", "one@example.com", "192.0.2.1") == "4ae73b261caa1489e97703abf754f3c4"


@pytest.mark.django_db
def test_the_key_of_a_sector_is_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A salt and a sector give this key, which makes the subjects of pairwise clients."""
    monkeypatch.setattr(pairwise.PairwiseSalt, "salt", SECRET)
    pairwise.PairwiseSalt.objects.create(sealed=b"", master_key_id=OLD)
    assert pairwise.sector_key("app.example").hex() == "3bf68eedae051339edc1fa98aa5d8ef1"


def test_a_peppered_password_is_the_same_bytes() -> None:
    """A pepper and a password give these bytes, which Argon2id gets."""
    assert argon2._secret("password", "p").hex() == "aae699bc85bc8f26434e61fc564d7af503795efd69ded91ca23b92b649c3f70c"
