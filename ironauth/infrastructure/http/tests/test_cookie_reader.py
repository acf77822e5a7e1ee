"""The one reader of cookies: which name is ours, in every lane, whatever stands around it."""

from collections.abc import Iterator

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from ironauth.config import cookies as cookie_names
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.http.cookies import AmbiguousCookies
from ironauth.infrastructure.http.tests.cookie_spellings import (
    DISGUISES,
    STRANGERS,
    WIDE,
    expected,
    on_the_wire,
)

NAME = "__Host-sso"


@pytest.fixture
def secure() -> Iterator[None]:
    """Cookies are Secure, as outside of DEBUG."""
    with override_settings(IRONAUTH_COOKIE_SECURE=True):
        yield


def is_refused(field: str) -> bool:
    """Tell whether the reader refuses the field."""
    try:
        cookies.read(field)
    except AmbiguousCookies:
        return True
    return False


@pytest.mark.usefixtures("secure")
@pytest.mark.parametrize("places", ["before", "after", "both"])
def test_every_byte_around_a_name(places: str) -> None:
    """Space and tab alone leave a name ours; a byte that names have makes another name; every other one is refused."""
    for number in range(256):
        byte = bytes([number])
        before, after = (byte if places != "after" else b"", byte if places != "before" else b"")
        field = on_the_wire(before + NAME.encode() + after + b"=v")
        outcome = expected(before, after)
        if outcome in ("refused", "ours", "other value"):
            assert is_refused(field) is (outcome == "refused"), byte
        if not is_refused(field):
            value = {"ours": "v", "other value": "=v"}.get(outcome)
            assert cookies.read(field).get(NAME) == value, byte
            assert is_refused(f"{NAME}=first; {field}") is (value is not None), byte


@pytest.mark.usefixtures("secure")
@pytest.mark.parametrize("text", [*WIDE, *DISGUISES])
def test_names_that_become_ours(text: str | bytes) -> None:
    """Whatever strips, unquotes, decodes, folds or normalizes it: a name that becomes ours is refused, alone or not."""
    spelled = (
        [text] if isinstance(text, str) else [text + NAME.encode(), NAME.encode() + text, text + NAME.encode() + text]
    )
    for one in spelled:
        for field in (f"{on_the_wire(one)}=v", f"a=b; {on_the_wire(one)}=v;c=d", f"{NAME}=v; {on_the_wire(one)}=w"):
            assert is_refused(field), one


@pytest.mark.usefixtures("secure")
@pytest.mark.parametrize("text", STRANGERS)
def test_names_of_others(text: str) -> None:
    """What is not ours in any reading is let pass, twice too, and leaves ours alone."""
    spelled = on_the_wire(text)
    for field in (f"{spelled}=v; {NAME}=ours", f"{spelled}=v; {spelled}=w;{NAME}=ours ;", f"{NAME}=ours;{spelled}"):
        assert cookies.read(field)[NAME] == "ours"


@pytest.mark.usefixtures("secure")
def test_every_cookie_of_the_registry_is_guarded() -> None:
    """Each of them twice, without a value, and behind the byte that str.strip() drops, is refused."""
    for cookie in cookie_names.REGISTRY:
        name = cookie_names.name_of(cookie, secure=True)
        assert cookies.read(f"a=b;\t{name}\t=\tv;") == {"a": "b", name: "v"}
        for field in (
            f"{name}=v; {name}=v",
            f"{name}",
            f"{name}=v; {name}",
            f"\xa0{name}=v",
            f"{name}=v; \x85{name}=w",
        ):
            assert is_refused(field), field


@given(st.text(st.characters(max_codepoint=255), max_size=40), st.booleans())
def test_nothing_a_browser_sends_breaks_the_reader(text: str, is_secure: bool) -> None:
    """Any bytes are read or refused, never anything else, and what is read is exactly what stands there."""
    with override_settings(IRONAUTH_COOKIE_SECURE=is_secure):
        if is_refused(text):
            return
        found = cookies.read(text)
    pairs = [piece.partition("=") for piece in text.split(";")]
    assert found == {
        name.strip(" \t"): value.strip(" \t") for name, equals, value in pairs if equals and name.strip(" \t")
    }


def test_spellings_are_remembered_within_bounds() -> None:
    """However many names clients invent, and however long: the memory of a process does not grow."""
    for number in range(2 * cookies.MOST_REMEMBERED):
        cookies.read(f"invented-{number}=1; {'x' * 100}{number}=1")
    assert all(len(names) <= cookies.MOST_REMEMBERED for names in cookies._remembered.values())
    assert all(len(name) <= cookies.LONGEST_REMEMBERED for name in cookies._remembered[False])
