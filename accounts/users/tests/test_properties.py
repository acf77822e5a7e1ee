"""What holds for every address and every password, whatever characters people and attackers type.

Properties of single functions stand beside their examples (``test_emails``, ``test_passwords``); here are those of
spellings that imitate each other, and of the whole way through HTTP.
"""

import json
import secrets
import unicodedata
from collections.abc import Callable
from typing import Final

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from accounts import email_address as emails
from accounts.passwords import hashing as passwords
from accounts.passwords.policy import policy_errors
from accounts.users.models import User

ACCESS: Final = "/api/v1/access"
PASSWORD: Final = "violet otter rides 9 trams"
#: Requests cost milliseconds where functions cost microseconds.
THROUGH_HTTP = settings(
    max_examples=40, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
PURE = settings(max_examples=300, derandomize=True, database=None, deadline=None)

#: Letters that some folding somewhere takes for others.
TRICKY: Final = (
    "iI\u0131\u0130kK\u212asS\u017f\u00df\u1e9e\u03c3\u03c2\u03a3\u00b5\u03bc\u00c5\u212b\u00e5\u00e4\u00c4\u00e9\u00c9e\u0301"
    "\u01c5\u01c6\u0133\ufb01\ufb00\u00b2\uff12\uff41\u0410\u0430\u043e\u041e\u03f4\u03b8\u03f4\u13f8\uab70\u1c80\u0432"
)
LETTERS: Final = st.sampled_from(TRICKY) | st.characters(categories=["L", "M", "N"]) | st.sampled_from("abcxyz.-+_")
ADDRESS: Final = st.builds(
    lambda local, domain: f"{local}@{domain}.com",
    st.text(LETTERS, min_size=1, max_size=12),
    st.text(LETTERS, min_size=1, max_size=8),
)
#: What mail systems, databases and other programs do to an address, and what attackers do to imitate one.
RESPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "upper": str.upper,
    "lower": str.lower,
    "casefold": str.casefold,
    "swapcase": str.swapcase,
    "title": str.title,
    **{form: lambda text, form=form: unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")},  # type: ignore[misc]  # mypy knows no default of a lambda
    "IDNA": lambda text: text.encode("idna", "ignore").decode() if len(text) < 60 else text,
    "ASCII": lambda text: unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode(),
}


async def post(api: httpx.AsyncClient, path: str, **body: str) -> httpx.Response:
    """Send a body in JSON's ASCII spelling, which can say a lone surrogate too."""
    return await api.post(f"{ACCESS}/{path}", content=json.dumps(body), headers={"Content-Type": "application/json"})


def accepted(email: str) -> bool:
    """Return whether an account could have this address."""
    try:
        emails.validate(emails.normalise(email))
    except ValidationError:
        return False
    return True


def without_case(email: str) -> str:
    """Return the address with each letter in its lower case alone where that is one letter, in NFC."""
    composed = unicodedata.normalize("NFC", email.strip(" "))
    return unicodedata.normalize("NFC", "".join(char.lower() if len(char.lower()) == 1 else char for char in composed))


@PURE
@given(ADDRESS, st.sampled_from(sorted(RESPELLINGS)))
def test_a_respelt_address_is_the_same_but_for_case_or_another(email: str, how: str) -> None:
    """Whatever is done to an address: where both are accepted and have one key, they differ in case alone."""
    try:
        other = RESPELLINGS[how](email)
    except UnicodeError:  # no name IDNA could write
        return
    if accepted(email) and accepted(other) and emails.fold(email) == emails.fold(other):
        assert without_case(email) == without_case(other)


@PURE
@given(ADDRESS | st.text(max_size=60))
@example("a@deleted.invalid")
def test_an_address_is_looked_up_as_it_is_stored(email: str) -> None:
    """What is accepted is found under its own key, also as stored and folded again; what is not is found under none."""
    stored = emails.normalise(email)
    if accepted(email):
        assert emails.lookup_key(email) == emails.lookup_key(stored) == emails.fold(stored) != ""
        assert emails.fold(emails.fold(stored)) == emails.fold(stored)
        assert len(emails.fold(stored)) <= emails.MAX_KEY_LENGTH
        assert accepted(stored)
    else:
        assert emails.lookup_key(email) == ""


@PURE
@given(st.text(max_size=40), st.integers(0, 39), st.characters(exclude_categories=["Cs"]))
def test_every_character_of_a_password_counts(text: str, place: int, other: str) -> None:
    """Another character anywhere, or one left out, is another password, unless both are canonically equal."""
    encoded = make_password(text)
    at = place % (len(text) + 1)
    for changed in (text[:at] + other + text[at:], text[:at] + text[at + 1 :]):
        same = unicodedata.normalize("NFC", changed) == unicodedata.normalize("NFC", text)
        assert async_to_sync(passwords.verify_password)(changed, encoded).ok == same


@PURE
@given(st.integers(1, 60), st.sampled_from("aé\u0301字😀\u200d \x00"), st.text(max_size=30))
def test_length_is_counted_in_code_points_after_composition(count: int, char: str, rest: str) -> None:
    """Neither bytes nor what is drawn, nor trimmed spaces: so many code points of NFC, at both ends of the range."""
    for text in (char * count + rest, (char * count + rest) * 40):
        length = len(unicodedata.normalize("NFC", text))
        codes = {error.code for error in policy_errors(text)}
        assert ("password_too_short" in codes) == (length < 15)
        assert ("password_too_long" in codes) == (length > 1_024)


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
@THROUGH_HTTP
@given(email=ADDRESS | st.text(max_size=40) | st.text(st.characters(), max_size=20).map(lambda text: f"{text}@b.co"))
@example(email="\ud800@example.com")
@example(email="a\x00@example.com")
@example(email="a@" + "x" * 250 + ".com")
async def test_any_address_is_answered(email: str, api: httpx.AsyncClient, signing_key: str) -> None:
    """An account or a reason, never an error of the server's; each account is found again, and made once."""
    known = await User.objects.filter(email_key=emails.fold(email)).aexists() if accepted(email) else False
    answer = await post(api, "signup", email=email, password=PASSWORD)
    assert answer.status_code == (409 if known else 201 if accepted(email) else 400), answer.text
    assert (await post(api, "signin", email=email, password=PASSWORD)).status_code in (
        (200,) if accepted(email) else (400, 401)
    )
    assert (await post(api, "email/verify", token=email)).status_code == 400
    if answer.status_code == 201:
        assert answer.json()["email"] == emails.normalise(email)
        again = await post(api, "signup", email=emails.fold(email), password=PASSWORD)
        assert again.status_code == 409


@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
@THROUGH_HTTP
@given(password=st.text(min_size=13, max_size=40) | st.text(st.characters(), max_size=20))
@example(password="\ud800" * 3 + "violet otter rides")
@example(password="violet\x00otter rides 9 trams ")
@example(password="😀" * 14 + "é")
async def test_any_password_is_answered_and_accepted_ones_sign_in(
    password: str, api: httpx.AsyncClient, signing_key: str
) -> None:
    """Refused with the policy's reasons, or good for signing in: as it is and in other normal forms, not cut short."""
    email = f"person-{secrets.token_hex(6)}@example.com"
    answer = await post(api, "signup", email=email, password=password)
    no_text = any("\ud800" <= char <= "\udfff" for char in password)  # half a character: RFC 8259 §8.2
    refused = bool(policy_errors(password, email=email)) or no_text or not password
    assert answer.status_code == (400 if refused else 201), answer.text

    async def status(text: str) -> int:
        return (await post(api, "signin", email=email, password=text)).status_code

    if answer.status_code == 201:
        assert await status(password) == await status(unicodedata.normalize("NFD", password)) == 200
        assert await status(password[:-1]) == await status(password + " ") == 401
