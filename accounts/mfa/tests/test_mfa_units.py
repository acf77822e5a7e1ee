"""Second factors as units of work: two at once, and secrets that move to a newer master key."""

import secrets
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from io import StringIO

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import override_settings
from structlog.testing import capture_logs

from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.conftest import MakeUser
from accounts.mfa import factors
from accounts.mfa.errors import InvalidMfaCode
from accounts.mfa.recovery.factor import RecoveryProof
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp import units as totp_units
from accounts.mfa.totp.errors import MfaAlreadyEnabled, TotpUnreadable
from accounts.mfa.totp.factor import TotpProof
from accounts.mfa.totp.models import TotpFactor
from accounts.users.models import User
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SECRET = b"12345678901234567890"
judge = async_to_sync(factors.judge)


@pytest.fixture
def owner(make_user: MakeUser) -> User:
    """Somebody with an app and one recovery code."""
    user = make_user()
    key_id, sealed = totp.seal(SECRET, user.pk)
    with transaction.atomic():
        totp_units.store_secret(user_id=user.pk, sealed=sealed, master_key_id=key_id)
        totp_units.confirm_totp(
            user_id=user.pk, judged=totp_units.pending(user.pk), step=1, hashes={"0a1b": user.password}, session_id=None
        )
    return user


def test_a_step_is_used_once(owner: User) -> None:
    """Of eight at once one gets it; afterwards only later steps count, and a code judged before them is late."""
    assert Counter(at_once(*[TotpProof(owner.pk, 1_000).use] * 8)) == {True: 1, False: 7}
    assert not TotpProof(owner.pk, 1_000).use()
    assert not TotpProof(owner.pk, 999).use()
    assert TotpProof(owner.pk, 1_001).use()
    assert TotpFactor.objects.get().last_step == 1_001


def test_a_recovery_code_is_used_once(owner: User) -> None:
    """Of eight at once one gets it."""
    code = RecoveryCode.objects.get()
    assert Counter(at_once(*[RecoveryProof(owner.pk, code.pk, owner.email).use] * 8)) == {True: 1, False: 7}
    assert not RecoveryCode.objects.exists()


def test_an_older_step_is_refused_before_anything_is_written(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the step before one that was used is judged wrong, although the window would take it."""
    step = 2_000
    monkeypatch.setattr(clock, "_source", lambda: step * 30.0)
    code, before = (totp._app(SECRET).generate_otp(one) for one in (step, step - 1))
    asked = ProofRequest(owner.pk, Event.ADMIN_SIGN_IN)
    assert judge(Evidence(code=before), asked) == TotpProof(owner.pk, step - 1)
    proof = judge(Evidence(code=code), asked)
    assert proof == TotpProof(owner.pk, step)
    assert proof.use()
    for used in (before, code):
        with pytest.raises(InvalidMfaCode):
            judge(Evidence(code=used), asked)


@pytest.mark.parametrize("size", [0, 9, 10])
def test_a_stored_secret_that_is_too_short(owner: User, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Under 80 bits no code is right, and the log names whose it is; with 80 the app works."""
    monkeypatch.setattr(clock, "_source", lambda: 60_000.0)
    secret = bytes(range(size))
    key_id, sealed = totp.seal(secret, owner.pk)
    TotpFactor.objects.update(sealed=sealed, master_key_id=key_id)
    asked = ProofRequest(owner.pk, Event.ADMIN_SIGN_IN)
    code = totp._code(secret, 2_000).decode()
    with capture_logs() as lines:
        if size < 10:
            with pytest.raises(InvalidMfaCode):
                judge(Evidence(code=code), asked)
        else:
            assert judge(Evidence(code=code), asked) == TotpProof(owner.pk, 2_000)
    told = [(line["user_id"], line["bits"]) for line in lines if line["event"] == "totp_secret_too_short"]
    assert told == ([(str(owner.pk), 8 * size)] if size < 10 else [])


def test_recovery_codes_alone_are_no_factor(owner: User) -> None:
    """They stand in for another one; an app that was not confirmed is none either."""
    assert factors.methods_of(owner.pk) == ("totp", "recovery_code")
    TotpFactor.objects.update(confirmed_at=None)
    assert factors.methods_of(owner.pk) == ()
    TotpFactor.objects.update(confirmed_at=clock.now())
    RecoveryCode.objects.all().delete()
    assert factors.methods_of(owner.pk) == ("totp",)
    owner.delete()
    assert factors.methods_of(owner.pk) == ()


def test_resealing(owner: User, make_user: MakeUser) -> None:
    """Every secret moves to the newest master key; then the older one may go, and codes still work."""
    for _ in range(4):
        other = make_user()
        key_id, sealed = totp.seal(SECRET, other.pk)
        TotpFactor.objects.create(user=other, sealed=sealed, master_key_id=key_id)
    ring = {"t2": secrets.token_bytes(32), **settings.IRONAUTH_MASTER_KEYS}
    for said in ("resealed=5 left=0 newest=t2", "resealed=0 left=0 newest=t2"):
        out = StringIO()
        with override_settings(IRONAUTH_MASTER_KEYS=ring):
            call_command("reseal_secrets", batch=2, stdout=out)
        assert out.getvalue().strip() == said
    trail = AuditEvent.objects.filter(event="secrets_resealed").order_by("id")
    told = [{"resealed": count, "left": 0, "master_key": "t2"} for count in (5, 0)]
    assert [(row.outcome, row.actor_id, row.details) for row in trail] == [("success", None, one) for one in told]
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": ring["t2"]}):
        for row in TotpFactor.objects.all():
            assert totp.unseal(row.master_key_id, bytes(row.sealed), row.pk) == SECRET


def test_resealing_says_what_is_lost(owner: User) -> None:
    """A secret whose master key is gone is counted and left alone; its code is neither right nor wrong."""
    before = TotpFactor.objects.values().get()
    out = StringIO()
    with override_settings(IRONAUTH_MASTER_KEYS={"t2": secrets.token_bytes(32)}):
        with pytest.raises(CommandError, match="1 secrets do not open"):
            call_command("reseal_secrets", stdout=out)
        with pytest.raises(TotpUnreadable):
            judge(Evidence(code="123456"), ProofRequest(owner.pk, Event.ADMIN_SIGN_IN))
    assert out.getvalue().strip() == "resealed=0 left=1 newest=t2"
    event = AuditEvent.objects.get(event="secrets_resealed")
    assert (event.outcome, event.details) == ("failure", {"resealed": 0, "left": 1, "master_key": "t2"})
    assert TotpFactor.objects.values().get() == before
    with pytest.raises(CommandError, match="--batch"):
        call_command("reseal_secrets", batch=0)


@pytest.mark.parametrize("meanwhile", ["begun", "confirmed", "deleted"])
def test_setting_up_takes_what_is_there_when_it_writes(
    make_user: MakeUser, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """It locks nobody: an app begun by another request is replaced, a confirmed one kept, a deleted user gone."""
    user = make_user()
    key_id, sealed = totp.seal(SECRET, user.pk)
    start = totp_units._START

    class Overtaken:
        """The first insert, with another request in front of it."""

        def run(self, **given: object) -> int:
            if meanwhile == "deleted":
                User.objects.filter(pk=user.pk).delete()
            else:
                start.run(**{**given, "sealed": b"other"})
            if meanwhile == "confirmed":
                TotpFactor.objects.update(confirmed_at=clock.now())
            return start.run(**given)

    monkeypatch.setattr(totp_units, "_START", Overtaken())
    outcomes: dict[str, AbstractContextManager[object]]
    outcomes = {"begun": nullcontext(), "confirmed": pytest.raises(MfaAlreadyEnabled)}
    with outcomes.get(meanwhile, pytest.raises(NotAuthenticated)):
        assert totp_units.store_secret(user_id=user.pk, sealed=sealed, master_key_id=key_id) == user.email
    kept = {"begun": [sealed], "confirmed": [b"other"], "deleted": []}[meanwhile]
    assert [bytes(row.sealed) for row in TotpFactor.objects.all()] == kept
