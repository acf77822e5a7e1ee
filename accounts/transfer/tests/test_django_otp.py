"""Apps and codes of django-otp, which django-two-factor-auth builds on, from a dump."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from accounts.transfer.records import MalformedError, Note
from accounts.transfer.tests.test_sources import only, read, written

#: What django-otp 1.7.5 made, and `dumpdata` wrote.
KEY = "112cac9f2ca494b2325a32c4b1b7ebd7aec50f12"
TOKENS = ("sw4rsgd5", "2dbmezin", "f6m76mpn")
APP = {"user": 1, "name": "default", "confirmed": True, "key": KEY, "step": 30, "t0": 0, "digits": 6, "drift": 0}
#: Labels of django-otp 1.7.5, django-two-factor-auth 1.18.1 (and older ones), django-otp-yubikey 1.1.0 and
#: django-otp-webauthn 0.10.3.
OTHERS = (
    "otp_email.emaildevice",
    "otp_hotp.hotpdevice",
    "otp_yubikey.yubikeydevice",
    "otp_yubikey.remoteyubikeydevice",
    "phonenumber.phonedevice",
    "two_factor.phonedevice",
    "two_factor_webauthn.webauthndevice",
    "django_otp_webauthn.webauthncredential",
)
CODES = tuple(hashlib.sha512(token.upper().encode()).digest() for token in TOKENS)


def row(model: str, pk: int, **fields: Any) -> dict[str, Any]:
    """Return a row of a dump."""
    return {"model": model, "pk": pk, "fields": fields}


def user(**fields: Any) -> dict[str, Any]:
    """Return a person of a dump."""
    return row("auth.user", 1, email="a@example.com", password="!", **fields)


def codes(*tokens: str, confirmed: bool = True) -> list[dict[str, Any]]:
    """Return a set of codes, which stands behind its codes as a dump may have it."""
    rows = [row("otp_static.statictoken", number, device=5, token=token) for number, token in enumerate(tokens)]
    return [*rows, row("otp_static.staticdevice", 5, user=1, name="backup", confirmed=confirmed)]


def test_an_app_and_its_codes(tmp_path: Path) -> None:
    """The key is hexadecimal; tokens are recovery codes, whatever the case they are typed in."""
    dump = [row("otp_totp.totpdevice", 1, **APP), *codes(*TOKENS), user()]
    person = only("django", written(tmp_path, "dump.json", dump))
    assert person.totp_secret == bytes.fromhex(KEY)
    assert person.code_digests == CODES
    assert person.notes == {Note.NO_PASSWORD}


@pytest.mark.parametrize(
    "second",
    [
        row("otp_totp.totpdevice", 1, **APP | {"user": ["ann"]}),
        row("otp_static.staticdevice", 5, user=["ann"], name="backup", confirmed=True),
        row("otp_email.emaildevice", 1, user=["ann"], confirmed=True),
        row("mfa.authenticator", 1, user=["ann"], type="totp", data={"secret": "MZXW6YTB" * 4}),
        row("account.emailaddress", 1, user=["ann"], email="a@example.com", verified=True),
    ],
)
def test_natural_keys_are_refused(tmp_path: Path, second: dict[str, Any]) -> None:
    """A row that names its person by the user name fits nobody: the file is refused, no factor is lost silently."""
    with pytest.raises(MalformedError, match="--natural-foreign"):
        read("django", written(tmp_path, "dump.json", [second, user(username="ann")]))


def test_people_without_keys_are_refused(tmp_path: Path) -> None:
    """Without their key nothing can be told of them, so the file is refused; a group may be without one."""
    person = user(username="ann")
    group = {"model": "auth.group", "fields": {"name": "staff"}}
    assert only("django", written(tmp_path, "dump.json", [group, person])).external_id == "1"
    del person["pk"]
    with pytest.raises(MalformedError, match="--natural-primary"):
        read("django", written(tmp_path, "dump.json", [group, person]))


@pytest.mark.parametrize(("field", "value"), [("digits", 8), ("step", 60), ("t0", 1)])
def test_an_app_of_another_form_stays_behind(tmp_path: Path, field: str, value: int) -> None:
    """Eight digits, another period or another beginning are no app here, and the report has a note."""
    dump = [row("otp_totp.totpdevice", 1, **APP | {field: value}), user()]
    person = only("django", written(tmp_path, "dump.json", dump))
    assert person.totp_secret is None
    assert person.notes == {Note.NO_PASSWORD, Note.TOTP_UNSUPPORTED}


def test_what_nobody_has_confirmed_is_no_factor(tmp_path: Path) -> None:
    """An app that was never set up to its end, and such a set of codes, are left out without a note."""
    half = row("otp_totp.totpdevice", 1, **APP | {"confirmed": False})
    mail = row("otp_email.emaildevice", 1, user=1, confirmed=False)
    person = only("django", written(tmp_path, "dump.json", [half, mail, *codes(*TOKENS, confirmed=False), user()]))
    assert (person.totp_secret, person.code_digests) == (None, ())
    assert person.notes == {Note.NO_PASSWORD}


@pytest.mark.parametrize(
    "second",
    [
        row("otp_totp.totpdevice", 2, **APP | {"key": "ff" * 20}),
        row("mfa.authenticator", 1, user=1, type="webauthn", data={}),
        row("otp_totp.totpdevice", 2, **APP | {"digits": 8}),
        *(row(kind, 1, user=1, confirmed=True) for kind in OTHERS),
    ],
)
def test_one_app_moves(tmp_path: Path, second: dict[str, Any]) -> None:
    """An account here has one app: a second one, and whatever is no app, stay behind with a note."""
    person = only("django", written(tmp_path, "dump.json", [row("otp_totp.totpdevice", 1, **APP), second, user()]))
    assert person.totp_secret == bytes.fromhex(KEY)
    assert person.notes == {Note.NO_PASSWORD, Note.FACTOR_UNSUPPORTED}


def test_the_app_that_fits_moves(tmp_path: Path) -> None:
    """Of an app of eight digits and one of six the second comes along, and the note is of a second factor alone."""
    apps = [row("otp_totp.totpdevice", 1, **APP | {"digits": 8}), row("otp_totp.totpdevice", 2, **APP)]
    person = only("django", written(tmp_path, "dump.json", [*apps, user()]))
    assert person.totp_secret == bytes.fromhex(KEY)
    assert person.notes == {Note.NO_PASSWORD, Note.FACTOR_UNSUPPORTED}


def test_a_code_that_is_none_here(tmp_path: Path) -> None:
    """One of seven characters, which staff may have written there, leaves all of them behind."""
    person = only("django", written(tmp_path, "dump.json", [*codes(TOKENS[0], "1234567"), user()]))
    assert person.code_digests == ()
    assert Note.RECOVERY_CODES_SHORT in person.notes


@pytest.mark.parametrize(
    ("fields", "stays"),
    [
        ({"is_staff": False, "is_superuser": False, "groups": [], "user_permissions": []}, False),
        ({"is_staff": True}, True),
        ({"is_superuser": True}, True),
        ({"groups": [1]}, True),
        ({"user_permissions": [1]}, True),
    ],
)
def test_rights_stay_behind(tmp_path: Path, fields: dict[str, Any], stays: bool) -> None:
    """Who is staff, or has a group or a permission in the old project, is counted."""
    person = only("django", written(tmp_path, "dump.json", [user(**fields)]))
    assert (Note.ATTRIBUTES in person.notes) is stays
