"""Recovery codes that somebody brings from another system sign in here, once each; short ones are counted."""

import hashlib
import json
import secrets
from base64 import b32encode, b64encode
from pathlib import Path

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from accounts.mfa.recovery.models import RecoveryCode
from accounts.outbox.models import OutgoingMail
from accounts.passwords import hashing
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES
from tokens.tests.browser import Member
from tokens.tests.second_factor import App, password_only, said, with_code

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("throttled", "still_clock", "signing_key"),
]

APP = b32encode(b"k" * 20).decode()
#: As Keycloak makes them, and a short one, as of allauth's.
FIRST, SECOND, SHORT = "ABCD1234WXYZ", "QRST5678NPQR", "01234567"
INVALID_CODE = (401, "invalid_mfa_code")


def digest(code: str) -> dict[str, str]:
    """Return a code as another system keeps it."""
    return {"sha512": b64encode(hashlib.sha512(code.encode()).digest()).decode()}


@pytest.fixture
async def moved(transactional_db: None, tmp_path: Path) -> Member:
    """Two people who were imported with the same password, app and codes; the first of them."""
    encoded, path = await hashing.hash_password(PASSWORD), tmp_path / "people.jsonl"
    rows = [
        {
            "external_id": name,
            "email": f"{name}@example.com",
            "email_verified": True,
            "password_hash": encoded,
            "totp_secret": APP,
            "recovery_codes": [digest(code) for code in codes],
        }
        for name, codes in (("bob", (FIRST, SECOND, SHORT)), ("eve", (SECOND,)))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    await sync_to_async(call_command)("import_users", str(path), "--from", "jsonl")
    return {"email": "bob@example.com", "password": PASSWORD}


async def token(api: httpx.AsyncClient, member: Member) -> str:
    """Return what a right password is given."""
    return str((await password_only(api, member))["mfa_token"])


@pytest.mark.parametrize("typed", [FIRST, "abcd-1234-wxyz", " ABCD 1234 WXYZ ", SHORT, "0123-4567"])
async def test_one_signs_in_once(api: httpx.AsyncClient, moved: Member, typed: str) -> None:
    """In whatever case and groups, without a hash; its owner gets a message, and the others stay good."""
    asked, jobs = await token(api, moved), hash_pool().stats().completed
    assert (await with_code(api, asked, typed)).status_code == 200
    assert hash_pool().stats().completed == jobs
    assert await OutgoingMail.objects.filter(kind="recovery_code_used", recipient="bob@example.com").acount() == 1
    assert said(await with_code(api, await token(api, moved), typed)) == INVALID_CODE
    assert await RecoveryCode.objects.filter(user__email="bob@example.com").acount() == 2
    assert (await with_code(api, await token(api, moved), SECOND)).status_code == 200


@pytest.mark.parametrize("typed", ["ABCD1234WXY", "ABCD1234WXYY", "ABCD1234WXYZA", "~000", "", "\x00" * 12, "é" * 12])
async def test_others_are_wrong(api: httpx.AsyncClient, moved: Member, typed: str) -> None:
    """A character more or less, and what is no code, signs nobody in and uses nothing up."""
    answer = await with_code(api, await token(api, moved), typed)
    assert answer.status_code in (400, 401)
    assert await RecoveryCode.objects.acount() == 4


async def test_a_code_of_somebody_else_is_wrong(api: httpx.AsyncClient, moved: Member) -> None:
    """Also where its row was moved to another account: a digest is sealed for its person."""
    eve = await User.objects.aget(email="eve@example.com")
    member = {"email": "eve@example.com", "password": PASSWORD}
    assert said(await with_code(api, await token(api, member), FIRST)) == INVALID_CODE
    await RecoveryCode.objects.filter(user=eve).adelete()
    assert await RecoveryCode.objects.filter(user__email="bob@example.com").aupdate(user=eve) == 3
    assert said(await with_code(api, await token(api, member), FIRST)) == INVALID_CODE


async def test_short_ones_have_the_count_of_the_app(api: httpx.AsyncClient, moved: Member) -> None:
    """After ten wrong ones not even the right one is judged, and the owner is told; a long one goes on and ends it."""
    asked = await token(api, moved)
    for number in range(FREE_FAILURES):
        assert said(await with_code(api, asked, f"9{number:07}")) == INVALID_CODE
    assert await OutgoingMail.objects.filter(kind="second_factor_refused", recipient="bob@example.com").acount() == 1
    for code in (SHORT, App(APP).code()):
        assert said(await with_code(api, asked, code)) == (429, "throttled")
    assert (await with_code(api, asked, FIRST)).status_code == 200
    assert (await with_code(api, await token(api, moved), SHORT)).status_code == 200


async def test_the_table_has_no_digest(moved: Member) -> None:
    """What is stored is sealed: the database alone lets nobody try codes."""
    stored = [encoded async for encoded in RecoveryCode.objects.values_list("encoded", flat=True)]
    assert len(set(stored)) == 4
    assert not any(digest(code)["sha512"][:20] in encoded for encoded in stored for code in (FIRST, SECOND, SHORT))


async def test_they_follow_the_master_keys(api: httpx.AsyncClient, moved: Member) -> None:
    """Resealed, they open under the newest key alone; under none of theirs they are wrong, not an error."""
    newest = {"t2": secrets.token_bytes(32)}
    with override_settings(IRONAUTH_MASTER_KEYS=newest | settings.IRONAUTH_MASTER_KEYS):
        await sync_to_async(call_command)("reseal_secrets")
        assert not await RecoveryCode.objects.exclude(encoded__startswith="sealed$t2$").aexists()
        assert (await with_code(api, await token(api, moved), FIRST)).status_code == 200
    assert said(await with_code(api, await token(api, moved), SECOND)) == INVALID_CODE
