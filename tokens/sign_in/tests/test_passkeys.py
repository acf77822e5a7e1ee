"""Passkeys over HTTP: added, used without a password and as a second factor, and refused whenever something is off."""

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings
from webauthn.helpers import bytes_to_base64url

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.mfa.passkeys import ceremonies, challenges
from accounts.mfa.passkeys import proofs as passkey_proofs
from accounts.mfa.passkeys import units as passkey_units
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.errors import TooManyPasskeys
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery.models import RecoveryCode
from accounts.outbox.models import OutgoingMail
from accounts.tests.authenticator import PRESENT, VERIFIED, Authenticator
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import UsedOnce
from ironauth.tests.at_once import at_once
from tokens.sessions.models import Session
from tokens.sessions.queries import OpenedSession
from tokens.sign_in import passkey_services, services
from tokens.sign_in.proofs import SignInProof
from tokens.tests.browser import CROSS_SITE, SAME_ORIGIN, SIGNIN, Member, Pair, me
from tokens.tests.stage import Stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

MFA = "/api/v1/access/mfa"
ADD, ADD_OPTIONS = f"{MFA}/passkeys", f"{MFA}/passkeys/options"
PASSKEY, PASSKEY_OPTIONS = f"{SIGNIN}/passkey", f"{SIGNIN}/passkey/options"
SECOND, SECOND_OPTIONS = f"{SIGNIN}/mfa", f"{SIGNIN}/mfa/options"
STEP_UP, STEP_UP_OPTIONS = "/api/v1/access/step-up", "/api/v1/access/step-up/options"

Json = dict[str, Any]


async def post(api: httpx.AsyncClient, path: str, body: Json, expected: int = 200, pair: Pair | None = None) -> Any:
    """Send a body, as who ``pair`` belongs to if given, and return the answer's JSON."""
    answer = await api.post(path, json=body, headers=bearer(pair) if pair else {})
    assert answer.status_code == expected, answer.text
    return answer.json() if answer.content else None


async def add(api: httpx.AsyncClient, pair: Pair, device: Authenticator, expected: int = 201, **more: Any) -> Any:
    """Add the device's passkey to the account of ``pair``."""
    options = await post(api, ADD_OPTIONS, {}, pair=pair)
    credential = device.create(options["publicKey"])
    body = {"challenge_token": options["challenge_token"], "credential": credential, **more}
    return await post(api, ADD, body, expected, pair)


async def answer_of(api: httpx.AsyncClient, device: Authenticator, path: str = PASSKEY_OPTIONS, **body: Any) -> Json:
    """Ask for a challenge and return what proves the device's passkey."""
    options = await post(api, path, body)
    return {"challenge_token": options["challenge_token"], "credential": device.get(options["publicKey"])}


async def by_passkey(api: httpx.AsyncClient, device: Authenticator, **more: Any) -> httpx.Response:
    """Sign in without a password."""
    return await api.post(PASSKEY, json={**await answer_of(api, device), **more})


def minted(purpose: Purpose, user_id: str) -> tuple[str, str]:
    """Return a genuine challenge of ours, as the client gets it: its token, and what the authenticator is to sign."""
    token, challenge = challenges.mint(purpose, uuid.UUID(user_id))
    return token, bytes_to_base64url(challenge)


def refused(answer: httpx.Response) -> bool:
    """Tell whether this is the one answer to whatever is wrong."""
    problem = answer.json()
    return answer.status_code == 401 and problem["code"] == "invalid_passkey" and "WWW-Authenticate" in answer.headers


@pytest.fixture
def device() -> Authenticator:
    """An authenticator nobody has used."""
    return Authenticator()


@pytest.fixture
async def added(api: httpx.AsyncClient, pair: Pair, device: Authenticator) -> Json:
    """What came of adding the device's passkey to the member's account."""
    return dict(await add(api, pair, device, name="Phone"))


# ------------------------------------------------------------------ adding and removing
async def test_the_first_passkey_comes_with_recovery_codes(api: httpx.AsyncClient, pair: Pair, added: Json) -> None:
    """They are shown once; a second passkey brings none, and the codes there are stay."""
    assert len(set(added["recovery_codes"])) == 10
    second = await add(api, pair, Authenticator())
    assert list(second) == ["passkey"]
    assert second["passkey"]["name"] == "Passkey"
    mfa = (await api.get(MFA, headers=bearer(pair))).json()
    assert mfa["methods"] == ["passkey", "recovery_code"]
    assert (mfa["totp"], mfa["recovery_codes_left"]) == (False, 10)
    assert [one["name"] for one in mfa["passkeys"]] == ["Phone", "Passkey"]
    assert mfa["passkeys"][0] == added["passkey"]
    assert added["passkey"]["last_used_at"] is None


async def test_what_is_there_is_not_made_again(api: httpx.AsyncClient, pair: Pair, device: Authenticator) -> None:
    """Options name the person's passkeys, and a credential is registered once, no matter who sends it."""
    await add(api, pair, device)
    options = await post(api, ADD_OPTIONS, {}, pair=pair)
    assert [one["transports"] for one in options["publicKey"]["excludeCredentials"]] == [["hybrid", "internal"]]
    assert (await add(api, pair, device, 409))["code"] == "passkey_taken"


async def test_ten_are_enough(api: httpx.AsyncClient, pair: Pair, member: Member, device: Authenticator) -> None:
    """The tenth is added, an eleventh neither asked for nor taken, nor stored by who had asked in time."""
    await _fill(member, 9)
    options = await post(api, ADD_OPTIONS, {}, pair=pair)
    await add(api, pair, device)
    assert (await post(api, ADD_OPTIONS, {}, 409, pair))["code"] == "too_many_passkeys"
    body = {"challenge_token": options["challenge_token"], "credential": Authenticator().create(options["publicKey"])}
    assert (await post(api, ADD, body, 409, pair))["code"] == "too_many_passkeys"
    token, value = challenges.mint(Purpose.REGISTER, uuid.UUID(member["id"]))
    challenge = challenges.parse(token, Purpose.REGISTER)
    assert challenge is not None
    made = ceremonies.verify_registration(
        Authenticator().create({**options["publicKey"], "challenge": bytes_to_base64url(value)}), challenge=value
    )
    with pytest.raises(TooManyPasskeys):
        await database().write(
            passkey_units.add,
            user_id=uuid.UUID(member["id"]),
            challenge=challenge,
            credential=made,
            name="Eleventh",
            hashes=None,
            session_id=None,
        )


async def _fill(member: Member, count: int) -> None:
    await Passkey.objects.abulk_create(
        Passkey(
            user_id=member["id"],
            credential_id=uuid.uuid4().bytes,
            public_key=b"",
            sign_count=0,
            backup_eligible=False,
            backed_up=False,
            aaguid=uuid.uuid4(),
        )
        for _ in range(count)
    )


@pytest.mark.parametrize("spoilt", ["challenge", "purpose", "person", "age", "credential", "replay"])
async def test_a_registration_that_is_off_adds_nothing(
    api: httpx.AsyncClient, pair: Pair, member: Member, device: Authenticator, spoilt: str
) -> None:
    """Another challenge, another person's, one too old or used before, or another site's answer: 400 for all."""
    options = await post(api, ADD_OPTIONS, {}, pair=pair)
    token, value = options["challenge_token"], dict(options["publicKey"])
    expected = 0
    match spoilt:
        case "challenge":
            token = (await post(api, ADD_OPTIONS, {}, pair=pair))["challenge_token"]
        case "purpose":
            token, value["challenge"] = minted(Purpose.STEP_UP, member["id"])
        case "person":
            token, value["challenge"] = minted(Purpose.REGISTER, str(uuid.uuid4()))
        case "credential":
            device.origin = "https://evil.example"
        case "replay":
            await post(api, ADD, {"challenge_token": token, "credential": device.create(value)}, 201, pair)
            device, expected = Authenticator(), 1
    body = {"challenge_token": token, "credential": device.create(value)}
    with clock.shifted(301 if spoilt == "age" else 0):
        assert (await post(api, ADD, body, 400, pair))["code"] == "passkey_not_made"
    assert await Passkey.objects.acount() == expected


async def test_adding_and_removing_need_a_recent_proof(api: httpx.AsyncClient, pair: Pair, added: Json) -> None:
    """A stolen session does neither ten minutes after the sign-in."""
    path = f"{ADD}/{added['passkey']['id']}"
    with clock.shifted(601):
        pair = (await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})).json()
        for method, where, body in (("POST", ADD_OPTIONS, {}), ("POST", ADD, _nothing()), ("DELETE", path, None)):
            answer = await api.request(method, where, json=body, headers=bearer(pair))
            assert (answer.status_code, answer.json()["code"]) == (401, "step_up_required")


def _nothing() -> Json:
    return {"challenge_token": "x", "credential": {}}


async def test_a_removed_passkey_opens_nothing(
    api: httpx.AsyncClient, pair: Pair, member: Member, device: Authenticator, added: Json
) -> None:
    """The recovery codes go with the last factor, and the password suffices again."""
    answer = await api.delete(f"{ADD}/{added['passkey']['id']}", headers=bearer(pair))
    assert answer.status_code == 204
    assert refused(await by_passkey(api, device))
    assert await RecoveryCode.objects.acount() == 0
    await post(api, SIGNIN, {"email": member["email"], "password": PASSWORD})


async def test_a_passkey_has_another_name(api: httpx.AsyncClient, pair: Pair, added: Json) -> None:
    """Its owner renames it; a name that no list can show is refused, an unknown passkey is 404."""
    path = f"{ADD}/{added['passkey']['id']}"
    renamed = await api.patch(path, json={"name": "Blue key"}, headers=bearer(pair))
    assert (renamed.status_code, renamed.json()["name"]) == (200, "Blue key")
    assert [one["name"] for one in (await api.get(MFA, headers=bearer(pair))).json()["passkeys"]] == ["Blue key"]
    for name in ("\x00", "n" * 151):
        assert (await api.patch(path, json={"name": name}, headers=bearer(pair))).status_code == 400
    other = f"{ADD}/{uuid.uuid4()}"
    assert (await api.patch(other, json={"name": "x"}, headers=bearer(pair))).status_code == 404
    assert (await Passkey.objects.aget()).name == "Blue key"


async def test_another_persons_passkey_is_not_found(
    api: httpx.AsyncClient, device: Authenticator, added: Json, new_email: Callable[[], str]
) -> None:
    """Neither told apart from one that does not exist, nor touched."""
    await post(api, "/api/v1/access/signup", body := {"email": new_email(), "password": PASSWORD}, 201)
    stranger = await post(api, SIGNIN, body)
    for passkey_id in (added["passkey"]["id"], uuid.uuid4()):
        answer = await api.delete(f"{ADD}/{passkey_id}", headers=bearer(stranger))
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await by_passkey(api, device)).status_code == 200


async def test_the_owner_and_the_trail_hear_of_it(
    api: httpx.AsyncClient, pair: Pair, member: Member, added: Json
) -> None:
    """A message for each, and an event that names the passkey by its id."""
    await api.delete(f"{ADD}/{added['passkey']['id']}", headers=bearer(pair))
    kinds = [mail.kind async for mail in OutgoingMail.objects.order_by("created_at")]
    assert kinds == ["passkey_added", "passkey_removed"]
    events = AuditEvent.objects.filter(event__startswith="passkey_").order_by("id")
    assert [(one.event, one.details, str(one.user_id), str(one.session_id)) async for one in events] == [
        (event, {"passkey": added["passkey"]["id"]}, member["id"], pair["session_id"])
        for event in ("passkey_added", "passkey_removed")
    ]


# ------------------------------------------------------------------ without a password
async def test_a_passkey_signs_in_by_itself(api: httpx.AsyncClient, device: Authenticator, added: Json) -> None:
    """Possession and verification are two factors: the session records it, and staff rules will see it."""
    answer = await by_passkey(api, device)
    assert answer.status_code == 200, answer.text
    assert await me(api, answer.json()) == 200
    session = await Session.objects.aget(pk=answer.json()["session_id"])
    assert session.amr.split() == ["pop", "user", "mfa"]
    passkey = await Passkey.objects.aget()
    assert passkey.last_used_at is not None


async def test_cookies_are_given_where_they_are_wanted(
    api: httpx.AsyncClient, device: Authenticator, added: Json
) -> None:
    """As at sign-in with a password; another site's page gets none."""
    answer = await answer_of(api, device)
    cross = await api.post(PASSKEY, json={**answer, "transport": "cookie"}, headers=CROSS_SITE)
    assert (cross.status_code, cross.json()["code"]) == (403, "cross_origin")
    ours = await api.post(PASSKEY, json={**answer, "transport": "cookie"}, headers=SAME_ORIGIN)
    assert ours.status_code == 204
    assert {"access_token", "refresh_token", "device"} <= set(ours.cookies)


async def test_options_are_the_same_for_everybody_and_store_nothing(api: httpx.AsyncClient) -> None:
    """No credential is named, and the database is not asked."""

    def count() -> int:
        return UsedOnce.objects.count()

    first, second = await post(api, PASSKEY_OPTIONS, {}), await post(api, PASSKEY_OPTIONS, {})
    assert first["challenge_token"] != second["challenge_token"]
    assert first["publicKey"]["challenge"] != second["publicKey"].pop("challenge")
    assert second["publicKey"] == {
        "timeout": 300_000,
        "rpId": "localhost",
        "allowCredentials": [],
        "userVerification": "required",
    }
    assert await sync_to_async(count)() == 0


Spoil = Callable[[Authenticator], None]
SPOILT: dict[str, Spoil] = {
    "another origin": lambda device: setattr(device, "origin", "https://evil.example"),
    "another relying party": lambda device: setattr(device, "rp_id", "evil.example"),
    "not verified": lambda device: setattr(device, "flags", device.flags & ~VERIFIED),
    "nobody there": lambda device: setattr(device, "flags", device.flags & ~PRESENT),
    "not backed up any more, nor eligible": lambda device: setattr(device, "flags", PRESENT | VERIFIED),
    "no user handle": lambda device: setattr(device, "user_handle", None),
    "another's user handle": lambda device: setattr(device, "user_handle", uuid.uuid4().bytes),
    "another key": lambda device: setattr(device, "key", Authenticator().key),
    "unknown credential": lambda device: setattr(device, "credential_id", b"unknown"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
async def test_whatever_is_off_gets_one_answer(
    api: httpx.AsyncClient, device: Authenticator, added: Json, spoil: Spoil
) -> None:
    """No session, no hint which of it was wrong, and an event in the trail."""
    spoil(device)
    before = await Session.objects.acount()
    assert refused(await by_passkey(api, device))
    assert await Session.objects.acount() == before
    await sync_to_async(audit.wait_until_written)()
    event = await AuditEvent.objects.order_by("id").alast()
    assert event is not None
    assert (event.event, event.outcome, event.details["reason"]) == ("sign_in", "failure", "invalid_passkey")


async def test_an_answer_is_good_once(api: httpx.AsyncClient, device: Authenticator, added: Json) -> None:
    """A replayed assertion opens nothing, not even the moment after."""
    answer = await answer_of(api, device)
    await post(api, PASSKEY, answer)
    assert refused(await api.post(PASSKEY, json=answer))


async def test_an_answer_belongs_to_its_challenge(api: httpx.AsyncClient, device: Authenticator, added: Json) -> None:
    """With the token of another challenge it proves nothing."""
    answer, other = await answer_of(api, device), await post(api, PASSKEY_OPTIONS, {})
    assert refused(await api.post(PASSKEY, json={**answer, "challenge_token": other["challenge_token"]}))


@pytest.mark.parametrize(("age_s", "status"), [(299, 200), (301, 401)])
async def test_a_challenge_lives_300_seconds(
    still_clock: float, api: httpx.AsyncClient, device: Authenticator, added: Json, age_s: int, status: int
) -> None:
    """It is good until then and not after."""
    answer = await answer_of(api, device)
    with clock.shifted(age_s):
        assert (await api.post(PASSKEY, json=answer)).status_code == status


async def test_one_challenge_at_once_opens_one_session(
    api: httpx.AsyncClient, device: Authenticator, added: Json
) -> None:
    """Twelve replays at the same moment, each already judged: one wins."""
    options = await post(api, PASSKEY_OPTIONS, {})
    credential = device.get(options["publicKey"])
    proof = await passkey_proofs.judge(
        credential,
        challenge_token=options["challenge_token"],
        purpose=Purpose.SIGN_IN,
        user_id=None,
        event=audit.Event.SIGN_IN,
        address="",
    )
    won = await sync_to_async(at_once)(*[proof.use] * 12)
    assert Counter(won) == {True: 1, False: 11}


async def test_one_count_at_once_is_taken_once(api: httpx.AsyncClient, pair: Pair) -> None:
    """Two challenges answered with the same count, by an authenticator and its copy: one of them wins."""
    device = Authenticator(counts=True)
    await add(api, pair, device)
    proofs = []
    for _ in range(2):
        device.sign_count = 0
        proofs.append(
            await passkey_proofs.judge(
                **_renamed(await answer_of(api, device)),
                purpose=Purpose.SIGN_IN,
                user_id=None,
                event=audit.Event.SIGN_IN,
                address="",
            )
        )
    assert Counter(await sync_to_async(at_once)(*(proof.use for proof in proofs))) == {True: 1, False: 1}


def _renamed(answer: Json) -> Json:
    return {"answer": answer["credential"], "challenge_token": answer["challenge_token"]}


async def test_a_counter_that_goes_back_is_refused(api: httpx.AsyncClient, pair: Pair) -> None:
    """Each use has to count up: another number means that there is a copy of the key, and the trail names it."""
    device = Authenticator(counts=True)
    added = await add(api, pair, device)
    assert (await by_passkey(api, device)).status_code == 200
    assert (await by_passkey(api, device)).status_code == 200
    for copied in (1, 0, -1):  # the next is one more
        device.sign_count = copied
        assert refused(await by_passkey(api, device)), copied
    await sync_to_async(audit.wait_until_written)()
    events = AuditEvent.objects.filter(outcome="failure").order_by("id")
    assert [one.details async for one in events] == [
        {"reason": "invalid_passkey", "cause": "sign_count", "passkey": added["passkey"]["id"]}
    ] * 3
    device.sign_count = 2
    assert (await by_passkey(api, device)).status_code == 200


async def test_whose_account_changes_meanwhile_is_no_passkey_used_before(
    api: httpx.AsyncClient, member: Member, device: Authenticator, added: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right passkey of an account that changes before its session is stored: the trail says account, not used."""

    async def changed(proof: SignInProof, **given: Any) -> OpenedSession:
        await User.objects.filter(pk=member["id"]).aupdate(is_active=False)
        return await services.open_session(proof, **given)

    monkeypatch.setattr(passkey_services, "open_session", changed)
    assert refused(await by_passkey(api, device))
    await sync_to_async(audit.wait_until_written)()
    event = await AuditEvent.objects.aget(outcome="failure")
    assert event.details == {"reason": "invalid_passkey", "cause": "account", "passkey": added["passkey"]["id"]}


async def test_when_it_was_last_used_is_written_once_a_minute(
    api: httpx.AsyncClient, device: Authenticator, added: Json
) -> None:
    """For one that does not count, that is; nothing else of it changes, so that most sign-ins write no row of it."""

    async def used_at() -> float:
        passkey = await Passkey.objects.aget()
        assert passkey.last_used_at is not None
        return passkey.last_used_at.timestamp()

    await by_passkey(api, device)
    first = await used_at()
    with clock.shifted(59):
        assert (await by_passkey(api, device)).status_code == 200
        assert await used_at() == first
    with clock.shifted(61):
        assert (await by_passkey(api, device)).status_code == 200
        assert await used_at() == pytest.approx(first + 61, abs=5)


async def test_people_who_may_not_sign_in_may_not_with_a_passkey(
    api: httpx.AsyncClient, member: Member, device: Authenticator, added: Json, settings: Settings
) -> None:
    """Deactivated and deleted people are told nothing; who must verify the address, or choose another password, is."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    answer = await by_passkey(api, device)
    assert (answer.status_code, answer.json()["code"]) == (403, "email_not_verified")
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    await User.objects.filter(pk=member["id"]).aupdate(must_change_password=True)
    answer = await by_passkey(api, device)
    assert (answer.status_code, answer.json()["code"]) == (403, "password_change_required")
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    await User.objects.filter(pk=member["id"]).aupdate(is_active=False)
    assert refused(await by_passkey(api, device))
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    assert refused(await by_passkey(api, device))
    await User.objects.filter(pk=member["id"]).adelete()
    assert refused(await by_passkey(api, device))
    assert await Passkey.objects.acount() == 0


# ------------------------------------------------------------------ after the password, and in a session
async def test_a_passkey_is_a_second_factor(
    api: httpx.AsyncClient, member: Member, device: Authenticator, added: Json
) -> None:
    """The password alone opens nothing any more; a touch finishes it, and the session says how."""
    asked = await post(api, SIGNIN, {"email": member["email"], "password": PASSWORD}, 401)
    assert (asked["code"], asked["methods"]) == ("mfa_required", ["passkey", "recovery_code"])
    options = await post(api, SECOND_OPTIONS, {"mfa_token": asked["mfa_token"]})
    assert len(options["publicKey"]["allowCredentials"]) == 1
    device.flags &= ~VERIFIED
    body = {"challenge_token": options["challenge_token"], "credential": device.get(options["publicKey"])}
    pair = await post(api, SECOND, {"mfa_token": asked["mfa_token"], **body})
    assert await me(api, pair) == 200
    assert (await Session.objects.aget(pk=pair["session_id"])).amr.split() == ["pwd", "pop", "mfa"]
    used = await post(api, SECOND, {"mfa_token": asked["mfa_token"], **body}, 401)
    assert used["code"] == "invalid_mfa_token"


async def test_a_second_factor_is_the_persons_own(
    api: httpx.AsyncClient, member: Member, added: Json, new_email: Callable[[], str]
) -> None:
    """Who knows a password finishes nothing with a passkey of their own, whichever challenge they answer."""
    await post(api, "/api/v1/access/signup", body := {"email": new_email(), "password": PASSWORD}, 201)
    theirs = Authenticator()
    await add(api, await post(api, SIGNIN, body), theirs)
    victim = await post(api, SIGNIN, {"email": member["email"], "password": PASSWORD}, 401)
    own = await post(api, SIGNIN, body, 401)
    for answer in (
        await answer_of(api, theirs, SECOND_OPTIONS, mfa_token=victim["mfa_token"]),
        await answer_of(api, theirs, SECOND_OPTIONS, mfa_token=own["mfa_token"]),
        await answer_of(api, theirs),
    ):
        assert (await post(api, SECOND, {"mfa_token": victim["mfa_token"], **answer}, 401))["code"] == "invalid_passkey"


async def test_a_challenge_is_the_persons_own(
    api: httpx.AsyncClient, member: Member, device: Authenticator, added: Json
) -> None:
    """An answer that a person's own passkey gave to a challenge made for somebody else proves nothing here."""
    asked = await post(api, SIGNIN, {"email": member["email"], "password": PASSWORD}, 401)
    token, challenge = minted(Purpose.SECOND_FACTOR, str(uuid.uuid4()))
    answer = {"challenge_token": token, "credential": device.get({"challenge": challenge})}
    assert refused(await api.post(SECOND, json={"mfa_token": asked["mfa_token"], **answer}))


async def test_a_challenge_for_the_second_factor_signs_nobody_in(
    api: httpx.AsyncClient, member: Member, device: Authenticator, added: Json
) -> None:
    """Nor does one for signing in stand in for the second factor; both have their own purpose."""
    asked = await post(api, SIGNIN, {"email": member["email"], "password": PASSWORD}, 401)
    answer = await answer_of(api, device, SECOND_OPTIONS, mfa_token=asked["mfa_token"])
    assert refused(await api.post(PASSKEY, json=answer))
    await post(api, SECOND, {"mfa_token": asked["mfa_token"], **answer})


@pytest.mark.parametrize("body", [{}, {"challenge_token": "x"}, {"credential": {}}])
async def test_half_a_proof_is_a_bad_request(api: httpx.AsyncClient, member: Member, added: Json, body: Json) -> None:
    """A code, or both parts of a passkey's answer: the field that is missing is named."""
    asked = await post(api, SIGNIN, {"email": member["email"], "password": PASSWORD}, 401)
    problem = await post(api, SECOND, {"mfa_token": asked["mfa_token"], **body}, 400)
    missing = {"code"} if not body else {"challenge_token", "credential"} - set(body)
    assert {error["field"] for error in problem["errors"]} == missing


async def test_options_need_a_good_ticket(api: httpx.AsyncClient, added: Json) -> None:
    """Whose passkeys there are is for who knows the password."""
    assert (await post(api, SECOND_OPTIONS, {"mfa_token": "x" * 102}, 401))["code"] == "invalid_mfa_token"


async def test_a_passkey_confirms_a_session(
    api: httpx.AsyncClient, pair: Pair, device: Authenticator, added: Json
) -> None:
    """Ten minutes after the sign-in it opens again what needs a recent proof."""
    with clock.shifted(601):
        pair = (await api.post("/api/v1/access/refresh", json={"refresh_token": pair["refresh_token"]})).json()
        assert (await post(api, ADD_OPTIONS, {}, 401, pair))["code"] == "step_up_required"
        options = await post(api, STEP_UP_OPTIONS, {}, pair=pair)
        body = {"challenge_token": options["challenge_token"], "credential": device.get(options["publicKey"])}
        await post(api, STEP_UP, body, 204, pair)
        await post(api, ADD_OPTIONS, {}, pair=pair)
        assert (await post(api, STEP_UP, body, 401, pair))["code"] == "invalid_passkey"
    session = await Session.objects.aget(pk=pair["session_id"])
    assert session.amr.split() == ["pwd", "pop", "mfa"]


async def test_staff_take_passkeys_away_with_every_other_factor(stage: Stage, device: Authenticator) -> None:
    """Who has lost them all signs in with the password alone again."""
    await add(stage.api, stage.pair, device)
    await stage.send("DELETE", f"/api/v1/users/{stage.member}/mfa", 204, pair=stage.root_pair)
    assert await Passkey.objects.acount() == 0
    assert refused(await by_passkey(stage.api, device))
    await stage.send("POST", SIGNIN, 200, {"email": stage.email, "password": PASSWORD})


# ------------------------------------------------------------------ limits
async def test_a_client_that_goes_on_and_on_is_throttled(
    api: httpx.AsyncClient, device: Authenticator, added: Json, throttled: None, settings: Settings
) -> None:
    """Challenges and wrong answers are counted together for one address; right answers are not.

    The trail hears of those that were judged, and once of the others.
    """
    settings.IRONAUTH_THROTTLE_PASSKEYS = 5
    kept = await answer_of(api, device)
    for _ in range(4):
        assert refused(await api.post(PASSKEY, json=_nothing()))
    for path, body in ((PASSKEY_OPTIONS, {}), (PASSKEY, _nothing())):
        answer = await api.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (429, "throttled")
        assert int(answer.headers["retry-after"]) >= 1
    await sync_to_async(audit.wait_until_written)()
    assert await AuditEvent.objects.filter(event="sign_in", outcome="failure").acount() == 4
    assert await AuditEvent.objects.filter(event="throttled").acount() == 1
    await post(api, PASSKEY, kept)
