"""An account that a stranger made under somebody's address: the owner's reset leaves them no way back into it.

Once the address is confirmed, a reset takes nothing away: whoever reads the mail still needs the second factor.
"""

import uuid
from typing import Any

import httpx
import pytest
from django.core import mail
from pytest_django import Settings

from accounts.audit_models import AuditEvent
from accounts.mfa import passkeys, services, totp
from accounts.mfa.models import RecoveryCode, TotpFactor
from accounts.mfa.passkey_models import Passkey
from accounts.models import User
from accounts.tests.authenticator import Authenticator
from accounts.tests.test_email_flows import confirm, delivered, token_for
from conftest import bearer
from ironauth.infrastructure import clock
from ironauth.infrastructure.errors import NotAuthenticated
from tokens.models import KnownDevice
from tokens.tests.browser import SIGNIN, Member, Pair, me
from tokens.tests.second_factor import TOTP, App, enrol, password_only, said
from tokens.tests.test_passkeys import ADD_OPTIONS, add, by_passkey

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

NEW_PASSWORD = "another otter rides 7 trams"
NOTICE = "Nobody had confirmed this address before."


async def left(user_id: str) -> tuple[int, ...]:
    """Return how many passkeys, apps, recovery codes and known devices there are."""
    tables: tuple[Any, ...] = (Passkey, TotpFactor, RecoveryCode, KnownDevice)
    return tuple([await table.objects.filter(user_id=user_id).acount() for table in tables])


async def reset(api: httpx.AsyncClient, member: Member) -> str:
    """Set a new password by mail as the owner does; return what the message about it says."""
    await delivered()
    token = await token_for(api, "password/reset", member["email"])
    assert (await confirm(api, token, NEW_PASSWORD)).status_code == 204
    assert [subject for _, subject, _ in await delivered()] == ["Your password was changed"]
    message: Any = mail.outbox[0]
    html = message.alternatives[0].content
    assert (NOTICE in message.body) == (NOTICE in html)
    return str(message.body)


async def events(user_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Return what the trail says of the reset."""
    rows = AuditEvent.objects.filter(user_id=user_id, actor_id=user_id, event__in=("mfa_reset", "password_reset"))
    return sorted([(row.event, row.details) async for row in rows])


@pytest.mark.parametrize("verified", [False, True])
async def test_a_stranger_has_no_way_back(
    api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings, verified: bool
) -> None:
    """Passkey, app, recovery codes and known device go when nobody had confirmed the address, and stay when one had."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    user_id, device = member["id"], Authenticator()
    await add(api, pair, device)
    await enrol(api, pair)
    assert (await by_passkey(api, device)).status_code == 200
    if verified:
        await User.objects.filter(pk=user_id).aupdate(email_verified_at=clock.now())
    before = await left(user_id)
    assert before == (1, 1, 10, 1)
    assert (NOTICE in await reset(api, member)) == (not verified)
    assert await left(user_id) == (before if verified else (0, 0, 0, 0))
    assert await me(api, pair) == 401
    owner = {**member, "password": NEW_PASSWORD}
    assert (await by_passkey(api, device)).status_code == (200 if verified else 401)
    if verified:
        assert (await password_only(api, owner))["methods"] == ["totp", "passkey", "recovery_code"]
        assert await events(user_id) == [("password_reset", {"first_proof": False})]
    else:
        answer = await api.post(SIGNIN, json={"email": owner["email"], "password": NEW_PASSWORD})
        assert answer.status_code == 200
        methods = {"methods": ["totp", "passkey", "recovery_code"]}
        assert await events(user_id) == [("mfa_reset", methods), ("password_reset", {"first_proof": True})]


@pytest.mark.parametrize("ended", [False, True])
async def test_a_session_that_has_ended_adds_no_factor(
    api: httpx.AsyncClient, member: Member, pair: Pair, ended: bool
) -> None:
    """Not even one that another worker still takes for live, for the seconds until it hears of the reset."""
    user = await User.objects.aget(pk=member["id"])
    options = (await api.post(ADD_OPTIONS, json={}, headers=bearer(pair))).json()
    proof = {"challenge_token": options["challenge_token"], "credential": Authenticator().create(options["publicKey"])}
    secret = (await api.post(TOTP, headers=bearer(pair))).json()["secret"]
    if ended:
        await reset(api, member)
        await User.objects.filter(pk=user.pk).aupdate(email_verified_at=None)
        sealed = totp.seal(App(secret).raw(), user.pk)
        await TotpFactor.objects.acreate(user=user, sealed=sealed[1], master_key_id=sealed[0])
        with pytest.raises(NotAuthenticated):
            await passkeys.add(user_id=user.pk, epoch=user.session_epoch, **proof)
        with pytest.raises(NotAuthenticated):
            await services.confirm_totp(user_id=user.pk, epoch=user.session_epoch, code=App(secret).code())
        assert await left(member["id"]) == (0, 1, 0, 0)
    else:
        await passkeys.add(user_id=user.pk, epoch=user.session_epoch, **proof)
        await services.confirm_totp(user_id=user.pk, epoch=user.session_epoch, code=App(secret).code())
        assert await left(member["id"]) == (1, 1, 10, 0)


async def test_an_app_half_set_up_goes_too(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The secret that waits for its first code is the stranger's; there was no factor to speak of."""
    assert (await api.post(TOTP, headers=bearer(pair))).status_code == 200
    assert await left(member["id"]) == (0, 1, 0, 0)
    assert NOTICE not in await reset(api, member)
    assert await left(member["id"]) == (0, 0, 0, 0)
    assert await events(member["id"]) == [("password_reset", {"first_proof": True})]


async def test_the_second_reset_is_no_first_proof(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """What the owner sets up after the first one stays through all later ones."""
    await reset(api, member)
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": NEW_PASSWORD})
    await enrol(api, answer.json())
    await reset(api, member)
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": NEW_PASSWORD})
    assert said(answer) == (401, "mfa_required")
    assert await TotpFactor.objects.filter(user_id=uuid.UUID(member["id"])).aexists()
