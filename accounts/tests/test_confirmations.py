"""Asking for the password once more: what counts against the account, and what does not."""

import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.conftest import PASSWORD, MakeUser
from accounts.errors import InvalidCredentials
from accounts.passwords import hashing as passwords
from accounts.users import reauthentication
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.core.errors import NotAuthenticated, Overloaded, Throttled
from ironauth.infrastructure.models import ThrottleFailures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


async def test_a_try_that_nobody_judged_is_not_counted(
    throttled: None, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the hash queue is full no try counts, however many there are; ten that were wrong do."""
    found = await reauthentication.active_user((await sync_to_async(make_user)()).pk)

    async def full(*_: Any) -> Any:
        raise Overloaded

    with monkeypatch.context() as patch:
        patch.setattr(passwords, "verify_password", full)
        for _ in range(12):
            with pytest.raises(Overloaded):
                await reauthenticate(found, Evidence(password=PASSWORD), ProofRequest(found.id, Event.STEP_UP))
    assert not await ThrottleFailures.objects.filter(failures__gt=0).aexists()
    assert not await AuditEvent.objects.aexists()
    for _ in range(10):
        with pytest.raises(InvalidCredentials):
            await reauthenticate(found, Evidence(password="a wrong password"), ProofRequest(found.id, Event.STEP_UP))
    with pytest.raises(Throttled):
        await reauthenticate(found, Evidence(password=PASSWORD), ProofRequest(found.id, Event.STEP_UP))


async def test_who_is_switched_off_is_nobody(make_user: MakeUser) -> None:
    """Credentials are an active person's; an inactive one, and an unknown id, are not signed in."""
    active, inactive = [await sync_to_async(make_user)(is_active=one) for one in (True, False)]
    assert (await reauthentication.active_user(active.pk)).id == active.pk
    for gone in (inactive.pk, uuid.uuid4()):
        with pytest.raises(NotAuthenticated):
            await reauthentication.active_user(gone)
