"""Who proves an address for the first time starts with nothing of before, unless they show that it is theirs too.

Pre-hijacked accounts (Sudhodanan & Paverd 2022): a stranger signs up with somebody's address, and waits for the owner.
"""

import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.core import mail
from django.db import models
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.email.tests.test_email_flows import confirm, delivered, token_for
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import EmailToken
from accounts.profile import Profile
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.clients.models import OAuthClient
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant
from tokens.sessions.models import KnownDevice, Session
from tokens.sign_in.tests.test_passkeys import add, by_passkey
from tokens.tests.browser import SIGNIN, Member, Pair, me
from tokens.tests.second_factor import App, enrol, said
from tokens.tests.test_export import models_of_people

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

NEW_PASSWORD = "another otter rides 7 trams"
ACCESS = "/api/v1/access"
CONFIRM, PAGE = f"{ACCESS}/email/verify", "/email/verify"
DAY = timedelta(days=1)


# ---------------------------------------------------------------- the list of what hangs on an account
def models_that_lead_to_people() -> set[type[models.Model]]:
    """Return every model that knows a person, itself or by a row it refers to."""
    known: set[type[models.Model]] = {*models_of_people(), User}
    while True:
        further = {
            model
            for model in apps.get_models(include_auto_created=True)
            if model not in known and any(field.related_model in known for field in model._meta.concrete_fields)
        }
        if not further:
            return known - {User}
        known |= further


def test_every_model_that_knows_a_person_has_a_rule() -> None:
    """A new one is registered with ``accounts.email.first_proof``, which says what happens to its rows, and why."""
    known = {model._meta.label for model in models_that_lead_to_people()}
    assert {"tokens.Session", "accounts.OutgoingMail", "admin.LogEntry", "accounts.User_groups"} <= known
    assert known == {model._meta.label for model in first_proof.rules()}


def test_every_column_of_a_person_has_a_rule() -> None:
    """A new one is named in ``first_proof.COLUMNS``; what people say of themselves goes, all of it."""
    assert set(first_proof.COLUMNS) == {field.name for field in User._meta.concrete_fields}
    gone = {name for name, rule in first_proof.COLUMNS.items() if rule.fate is Fate.REMOVED}
    assert gone == {field.name for field in Profile._meta.fields}


def test_a_model_has_one_rule() -> None:
    """Two applications cannot overrule each other."""
    with pytest.raises(ValueError, match=r"tokens\.Session"):
        first_proof.register(Session, Fate.KEPT, "twice")


# ---------------------------------------------------------------- what a stranger leaves behind
class Stranger:
    """Somebody who has made an account with another person's address, and left all they could on it."""

    def __init__(self, member: Member, pair: Pair) -> None:
        self.member, self.pair, self.device = member, pair, Authenticator()
        self.user_id = uuid.UUID(member["id"])
        self.app: App

    async def settle(self, api: httpx.AsyncClient) -> None:
        """Leave a row of every model that the first proof removes."""
        await add(api, self.pair, self.device)
        self.app, _ = await enrol(api, self.pair)
        client = await OAuthClient.objects.acreate(name="Wiki", auth_method="none")
        now, whose = clock.now(), {"user_id": self.user_id, "client": client}
        await Consent.objects.acreate(**whose, scope="openid")
        await AuthorizationCode.objects.acreate(
            **whose, digest="a" * 64, epoch=0, redirect_uri="https://x", authenticated_at=now, amr="pwd",
            expires_at=now + DAY,
        )  # fmt: skip
        await DeviceGrant.objects.acreate(
            **whose, digest="b" * 64, user_code="c" * 64, interval_s=5, expires_at=now + DAY, state="approved"
        )
        await KnownDevice.objects.acreate(user_id=self.user_id, place="here")
        await LogEntry.objects.acreate(user_id=self.user_id, action_flag=1, object_repr="x")

    async def left(self) -> set[str]:
        """Return the models that still have rows of the account, of those to be removed."""
        doomed = [model for model, rule in first_proof.rules().items() if rule.fate is Fate.REMOVED]
        return {model.__name__ async for model in _with_rows(doomed, self.user_id)}

    async def gets_in(self, api: httpx.AsyncClient) -> bool:
        """Tell whether session, refresh token, password or passkey still open anything."""
        refresh = {"refresh_token": self.pair["refresh_token"]}
        ways = [
            await me(api, self.pair),
            (await api.post(f"{ACCESS}/refresh", json=refresh)).status_code,
            (await api.post(SIGNIN, json={"email": self.member["email"], "password": PASSWORD})).status_code,
            (await by_passkey(api, self.device)).status_code,
        ]
        return ways != [401] * 4


async def _with_rows(found: list[type[models.Model]], user_id: uuid.UUID) -> Any:
    for model in found:
        rows: Any = model._default_manager.filter(user_id=user_id)
        if await rows.aexists():
            yield model


@pytest.fixture
async def stranger(api: httpx.AsyncClient, member: Member, pair: Pair) -> Stranger:
    """Give somebody who has settled in."""
    someone = Stranger(member, pair)
    await someone.settle(api)
    return someone


ALL = {
    model.__name__
    for model in (
        TotpFactor, Passkey, RecoveryCode, EmailToken, Consent, AuthorizationCode, DeviceGrant, KnownDevice,
    )
}  # fmt: skip


async def proved(user_id: uuid.UUID) -> bool:
    """Tell whether the address counts as verified."""
    return (await User.objects.aget(pk=user_id)).email_verified_at is not None


async def trail(user_id: uuid.UUID, event: str) -> dict[str, Any]:
    """Return what the trail says of the one success of this event."""
    row = await AuditEvent.objects.aget(user_id=user_id, event=event, outcome="success")
    return dict(row.details)


@pytest.mark.parametrize("way", ["reset", "new password", "new password on the page", "token alone"])
async def test_the_first_proof_starts_clean(
    api: httpx.AsyncClient, stranger: Stranger, member: Member, way: str
) -> None:
    """Factors, sessions, consents, codes, devices and tokens of before are gone, and the password is the owner's."""
    await delivered()
    token = await token_for(api, "password/reset" if way == "reset" else "email/verify/resend", member["email"])
    assert await stranger.left() == ALL
    match way:
        case "reset":
            answer = await confirm(api, token)
        case "new password":
            answer = await api.post(CONFIRM, json={"token": token, "new_password": NEW_PASSWORD})
        case "new password on the page":
            form = {"token": token, "answer": "choose", "password": "", "new_password": NEW_PASSWORD}
            answer = await api.post(PAGE, data=form)
        case _:
            answer = await api.post(CONFIRM, json={"token": token})
    assert answer.status_code in (200, 204), answer.text
    assert await proved(stranger.user_id)
    sent = await delivered()
    if way == "token alone":
        assert await stranger.left() == {"EmailToken"}  # of the message that lets the owner choose a password
        ((recipient, subject, choose),) = sent
        assert (recipient, subject) == (member["email"], "Choose a password")
        assert not await stranger.gets_in(api)
        assert choose is not None
        assert (await confirm(api, choose)).status_code == 204
    else:
        assert [subject for _, subject, _ in sent] == ["Your password was changed"]
    assert await stranger.left() == set()
    assert not await stranger.gets_in(api)
    owner = {"email": member["email"], "password": NEW_PASSWORD}
    assert (await api.post(SIGNIN, json=owner)).status_code == 200
    details = await trail(stranger.user_id, "password_reset" if way == "reset" else "email_verified")
    assert details == {"first_proof": True, "factors_removed": ["totp", "passkey", "recovery_code"]}
    assert await LogEntry.objects.filter(user_id=stranger.user_id).aexists()  # kept, as its rule says


SAID = {
    "name": "Stranger",
    "given_name": "Stran",
    "family_name": "Ger",
    "preferred_username": "admin",
    "zoneinfo": "Asia/Pyongyang",
    "language": "fr",
}


async def profile(user_id: uuid.UUID) -> dict[str, Any]:
    """Return the columns in which an account says who its person is."""
    return dict(await User.objects.values(*SAID).aget(pk=user_id))


@pytest.mark.parametrize("way", ["reset", "new password", "token alone"])
async def test_what_a_stranger_said_of_themselves_goes(api: httpx.AsyncClient, stranger: Stranger, way: str) -> None:
    """Names, zone and language of who came first are told to nobody after the first proof."""
    given = {name: value for name, value in SAID.items() if name != "language"}
    assert (await api.patch(f"{ACCESS}/me", json=given, headers=bearer(stranger.pair))).status_code == 200
    chosen = await api.put(f"{ACCESS}/me/language", json={"language": "fr"}, headers=bearer(stranger.pair))
    assert chosen.status_code == 200
    assert await profile(stranger.user_id) == SAID
    email = stranger.member["email"]
    await delivered()
    token = await token_for(api, "password/reset" if way == "reset" else "email/verify/resend", email)
    match way:
        case "reset":
            answer = await confirm(api, token)
        case "new password":
            answer = await api.post(CONFIRM, json={"token": token, "new_password": NEW_PASSWORD})
        case _:
            answer = await api.post(CONFIRM, json={"token": token})
    assert answer.status_code in (200, 204), answer.text
    assert await profile(stranger.user_id) == dict.fromkeys(SAID, "")
    if way != "token alone":
        owner = (await api.post(SIGNIN, json={"email": email, "password": NEW_PASSWORD})).json()
        seen = (await api.get(f"{ACCESS}/me", headers=bearer(owner))).json()
        assert {seen[name] for name in (*given, "locale")} == {""}


async def test_the_owner_keeps_their_profile(api: httpx.AsyncClient, stranger: Stranger) -> None:
    """Who shows that the account is theirs, and who resets a password later, loses nothing they said."""
    await User.objects.filter(pk=stranger.user_id).aupdate(**SAID)
    email = stranger.member["email"]
    await delivered()
    token = await token_for(api, "email/verify/resend", email)
    assert (await api.post(CONFIRM, json={"token": token}, headers=bearer(stranger.pair))).status_code == 204
    assert await profile(stranger.user_id) == SAID
    assert (await confirm(api, await token_for(api, "password/reset", email))).status_code == 204
    assert await profile(stranger.user_id) == SAID


@pytest.mark.parametrize("used", [False, True])
async def test_what_staff_gave_an_account_that_nobody_was_in_stays(api: httpx.AsyncClient, used: bool) -> None:
    """Without a password, another way in and any act, no stranger can have said it; with one act they can."""
    user = await User.objects.acreate(email="made@example.com", password="!none", **SAID)
    if used:
        who = {"actor_id": user.pk, "user_id": user.pk}
        await AuditEvent.objects.acreate(id=new_id(), at=clock.now(), event="sign_up", outcome="success", **who)
    assert (await confirm(api, await token_for(api, "password/reset", user.email))).status_code == 204
    assert await profile(user.pk) == (dict.fromkeys(SAID, "") if used else SAID)


@pytest.mark.parametrize("way", ["password and code", "on the page", "session"])
async def test_who_owns_the_account_too_keeps_everything(
    api: httpx.AsyncClient, stranger: Stranger, member: Member, way: str
) -> None:
    """The usual case: the person who signed up confirms; the sessions, factors and consents of before are theirs."""
    await delivered()
    token = await token_for(api, "email/verify/resend", member["email"])
    body = {"token": token, "password": PASSWORD, "code": stranger.app.code()}
    if way == "session":
        answer = await api.post(CONFIRM, json={"token": token}, headers=bearer(stranger.pair))
    elif way == "on the page":
        answer = await api.post(PAGE, data=body | {"new_password": NEW_PASSWORD})  # filled in by the browser
    else:
        answer = await api.post(CONFIRM, json=body)
    assert answer.status_code in (200, 204), answer.text
    assert await proved(stranger.user_id)
    assert await stranger.left() == ALL - {"EmailToken"}
    assert await me(api, stranger.pair) == 200
    assert (await by_passkey(api, stranger.device)).status_code == 200
    assert await delivered() == []
    assert await trail(stranger.user_id, "email_verified") == {"first_proof": True}


@pytest.mark.parametrize(
    ("more", "field", "code"),
    [
        ({"password": NEW_PASSWORD, "code": "right"}, "password", "wrong_password"),
        ({"password": PASSWORD}, "code", "required"),
        ({"password": PASSWORD, "code": "wrong"}, "code", "invalid_mfa_code"),
        ({"new_password": "short"}, "new_password", "password_too_short"),
    ],
)
async def test_what_does_not_show_it_changes_nothing(
    api: httpx.AsyncClient, stranger: Stranger, member: Member, more: dict[str, str], field: str, code: str
) -> None:
    """400 naming the field, and the token is good for another try; a password without the factor is half of it."""
    await delivered()
    token = await token_for(api, "email/verify/resend", member["email"])
    typed = {"right": stranger.app.code(), "wrong": stranger.app.wrong()}
    more = more | ({"code": typed[more["code"]]} if "code" in more else {})
    answer = await api.post(CONFIRM, json={"token": token, **more})
    assert answer.status_code == 400
    assert [(error["field"], error["code"]) for error in answer.json()["errors"]] == [(field, code)]
    assert not await proved(stranger.user_id)
    assert await stranger.left() == ALL
    right = {"token": token, "password": PASSWORD, "code": stranger.app.code()}
    assert (await api.post(CONFIRM, json=right)).status_code == 204


async def test_a_session_counts_for_its_own_account_alone(
    api: httpx.AsyncClient, stranger: Stranger, member: Member, settings: Settings
) -> None:
    """Of another person it shows nothing; one that is over is refused, and the token stays."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    other = {"email": "bo@example.com", "password": NEW_PASSWORD}
    await api.post(f"{ACCESS}/signup", json=other)
    headers = bearer((await api.post(SIGNIN, json=other)).json())
    over = bearer((await api.post(SIGNIN, json=other)).json())
    await api.post(f"{ACCESS}/logout", headers=over)
    await delivered()
    token = await token_for(api, "email/verify/resend", member["email"])
    assert (await api.post(CONFIRM, json={"token": token}, headers=over)).status_code == 401
    assert (await stranger.left(), await proved(stranger.user_id)) == (ALL, False)
    assert (await api.post(CONFIRM, json={"token": token}, headers=headers)).status_code == 204
    assert await stranger.left() == {"EmailToken"}
    assert not await stranger.gets_in(api)


async def test_the_race_for_the_link_gives_the_stranger_nothing(
    api: httpx.AsyncClient, settings: Settings, signing_key: str
) -> None:
    """``required``: the stranger signed up first. Their password is refused to the owner, who then chooses one."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    address, theirs, owners = "victim@example.com", PASSWORD, NEW_PASSWORD
    for password in (theirs, owners):
        assert (await api.post(f"{ACCESS}/signup", json={"email": address, "password": password})).status_code == 202
    token = next(token for _, _, token in await delivered() if token)
    refused = await api.post(PAGE, data={"token": token, "password": owners})
    assert (refused.status_code, "choose a new password instead" in refused.text) == (400, True)
    assert owners not in refused.text
    form = {"token": token, "new_password": owners}
    done = await api.post(PAGE, data=form)
    assert (done.status_code, "the new password is the only way in" in done.text) == (200, True)
    for password, status in ((theirs, 401), (owners, 200)):
        assert (await api.post(SIGNIN, json={"email": address, "password": password})).status_code == status


async def test_a_proved_address_needs_no_more_proof(api: httpx.AsyncClient, stranger: Stranger, member: Member) -> None:
    """Proved meanwhile, by whatever hand, the token alone changes nothing, and sets no password."""
    await delivered()
    token = await token_for(api, "email/verify/resend", member["email"])
    await User.objects.filter(pk=stranger.user_id).aupdate(email_verified_at=clock.now())
    answer = await api.post(CONFIRM, json={"token": token, "new_password": NEW_PASSWORD})
    assert said(answer) == (400, "invalid_token")
    assert (await api.post(CONFIRM, json={"token": token})).status_code == 204
    assert await stranger.left() == ALL - {"EmailToken"}
    assert await me(api, stranger.pair) == 200


async def asked_to_move(api: httpx.AsyncClient, stranger: Stranger) -> str:
    """Let the stranger ask for the owner's address; return the token that the owner gets."""
    body = {"new_email": "victim@example.com", "password": PASSWORD}
    step = {"code": stranger.app.code()}
    assert (await api.post(f"{ACCESS}/step-up", json=step, headers=bearer(stranger.pair))).status_code == 204
    assert (await api.post(f"{ACCESS}/email", json=body, headers=bearer(stranger.pair))).status_code == 202
    return next(token for _, _, token in await delivered() if token)


async def test_a_change_of_address_is_a_first_proof_while_the_present_one_is_unproved(
    api: httpx.AsyncClient, stranger: Stranger
) -> None:
    """A stranger moves the account to the owner's address, and the owner clicks: theirs, and clean."""
    token = await asked_to_move(api, stranger)
    assert (await api.post(CONFIRM, json={"token": token})).status_code == 204
    user = await User.objects.aget(pk=stranger.user_id)
    assert (user.email, user.email_verified_at is None) == ("victim@example.com", False)
    assert await stranger.left() == {"EmailToken"}
    assert await me(api, stranger.pair) == 401


@pytest.mark.parametrize("shown", ["password", "session"])
async def test_an_account_with_a_proved_address_moves_with_its_owner_alone(
    api: httpx.AsyncClient, stranger: Stranger, member: Member, shown: str
) -> None:
    """A stranger wants the victim's address for their own account: the victim's click moves nothing."""
    await User.objects.filter(pk=stranger.user_id).aupdate(email_verified_at=clock.now())
    token = await asked_to_move(api, stranger)
    other = {"email": "other@example.com", "password": PASSWORD}
    assert (await api.post(f"{ACCESS}/signup", json=other)).status_code == 201
    elsewhere = bearer((await api.post(SIGNIN, json=other)).json())
    for body, headers in (({}, {}), ({}, elsewhere), ({"password": NEW_PASSWORD}, {})):
        refused = await api.post(CONFIRM, json={"token": token, **body}, headers=headers)
        assert (refused.status_code, [error["field"] for error in refused.json()["errors"]]) == (400, ["password"])
    assert (await User.objects.aget(pk=stranger.user_id)).email == member["email"]
    more, headers = ({"password": PASSWORD}, {}) if shown == "password" else ({}, bearer(stranger.pair))
    assert (await api.post(CONFIRM, json={"token": token, **more}, headers=headers)).status_code == 204
    assert (await User.objects.aget(pk=stranger.user_id)).email == "victim@example.com"
    assert (await stranger.left(), await me(api, stranger.pair)) == (ALL - {"EmailToken"}, 200)


# ---------------------------------------------------------------- taking a deletion back
@pytest.mark.parametrize("by", ["api", "page", "not me"])
async def test_restoring_verifies_nothing(
    api: httpx.AsyncClient, stranger: Stranger, member: Member, by: str, settings: Settings
) -> None:
    """A stranger's account stays unproved; page and message say so, and its age, and that it need not be taken back."""
    await delivered()
    headers = bearer(stranger.pair)
    assert (await api.post(f"{ACCESS}/step-up", json={"code": stranger.app.code()}, headers=headers)).status_code == 204
    assert (
        await api.request("DELETE", f"{ACCESS}/me", json={"password": PASSWORD}, headers=headers)
    ).status_code == 204
    ((_, _, back),) = await delivered()
    written: Any = mail.outbox[0]
    user = await User.objects.aget(pk=stranger.user_id)
    made = f"{user.created_at:%-d %B %Y, %H:%M} UTC"
    shown = (await api.get("/account/restore", params={"token": back})).text
    for words in (member["email"], made, "Nobody has ever confirmed", "a passkey, since", "This was not me"):
        assert words in shown, words
    for text in (written.body, written.alternatives[0].content):
        assert f"The account was made on {made}, and has a second factor" in text
        assert "take it back now, and then choose" not in text
    if by == "not me":
        done = await api.post("/account/restore", data={"token": back, "answer": "not_me"})
        assert (done.status_code, "That account will be deleted" in done.text) == (200, True)
        assert (await api.post("/account/restore", data={"token": back})).status_code == 400
        assert not (await User.objects.aget(pk=stranger.user_id)).is_active
        rows = AuditEvent.objects.filter(user_id=stranger.user_id, event="account_deleted").order_by("id")
        assert [row.details.get("disowned", False) async for row in rows] == [False, True]
        ((_, _, back),) = await delivered()  # a mistaken click is taken back
    if by == "api":
        assert (await api.post(f"{ACCESS}/me/restore", json={"token": back})).status_code == 204
    else:
        done = await api.post("/account/restore", data={"token": back})
        assert (done.status_code, "nobody has confirmed its address yet" in done.text) == (200, True)
    assert not await proved(stranger.user_id)
    token = await token_for(api, "password/reset", member["email"])
    assert (await confirm(api, token)).status_code == 204
    assert not await stranger.gets_in(api)
    owner = {"email": member["email"], "password": NEW_PASSWORD}
    assert (await api.post(SIGNIN, json=owner)).status_code == 200


@pytest.mark.parametrize(("verified", "staff"), [(True, False), (False, True)])
async def test_not_everybodys_deletion_is_disowned(
    api: httpx.AsyncClient, stranger: Stranger, verified: bool, staff: bool
) -> None:
    """Of a proved address, and of one of staff, nothing of the kind is offered, or done."""
    changes = {"email_verified_at": clock.now() if verified else None, "is_staff": staff}
    await User.objects.filter(pk=stranger.user_id).aupdate(**changes)
    headers = bearer(stranger.pair)
    await api.post(f"{ACCESS}/step-up", json={"code": stranger.app.code()}, headers=headers)
    assert (
        await api.request("DELETE", f"{ACCESS}/me", json={"password": PASSWORD}, headers=headers)
    ).status_code == 204
    back = next(token for _, _, token in await delivered() if token)
    shown = (await api.get("/account/restore", params={"token": back})).text
    assert ("not_me" in shown, "Nobody has ever confirmed" in shown) == (False, not verified)
    assert (await api.post("/account/restore", data={"token": back, "answer": "not_me"})).status_code == 400
    assert (await api.post("/account/restore", data={"token": back})).status_code == 200
    assert await proved(stranger.user_id) == verified
