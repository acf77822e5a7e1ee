"""Who may not take second factors away leaves no account that has them with an address that nobody has proved.

Who reads the mail of such an address starts without them (``email.first_proof``), or ends the account
(``privacy.units.disown``).
"""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from accounts.admin.tests.second_step import USERS, Enrolled
from accounts.conftest import MakeUser, SignIn
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

CHANGE, RESET, VERIFY = "accounts.change_user", "accounts.reset_mfa", "accounts.verify_email"
OTHER = "other@example.com"


@pytest.mark.parametrize("body", [{"email": OTHER}, {"email_verified": False}])
async def test_staff_need_the_right_for_who_has_factors(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn, body: dict[str, Any]
) -> None:
    """403 for another address, and for taking back that it is proved; names, cases, and who has none are free."""
    make: Any = sync_to_async(make_user)
    headers = await sign_in(await make(CHANGE, VERIFY))
    mia, bo = [await make(email=f"{name}@example.com", email_verified_at=clock.now()) for name in ("mia", "bo")]
    await sync_to_async(Enrolled)(mia)
    path = f"/api/v1/users/{mia.pk}"
    answer = await api.patch(path, json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert RESET in answer.json()["detail"]
    free = {"email": "MIA@example.com", "name": "Mia", "email_verified": True}
    assert (await api.patch(path, json=free, headers=headers)).json()["email_verified"]
    assert (await api.patch(f"/api/v1/users/{bo.pk}", json=body, headers=headers)).status_code == 200
    await bo.adelete()
    headers = await sign_in(await make(CHANGE, RESET, VERIFY))
    assert not (await api.patch(path, json=body | {"name": "M"}, headers=headers)).json().get("email_verified", True)


@pytest.mark.parametrize(("rights", "moved"), [((), False), ((RESET,), True)])
def test_the_admin_shows_the_address_only(
    client: Client, make_user: MakeUser, rights: tuple[str, ...], moved: bool
) -> None:
    """A form that brings one changes the name alone; with the right, the address too."""
    client.force_login(make_user("accounts.view_user", CHANGE, *rights, is_staff=True))
    mia = make_user(email="mia@example.com", email_verified_at=clock.now())
    Enrolled(mia)
    page = f"{USERS}{mia.pk}/change/"
    assert ('name="email"' in client.get(f"{page}?tab=profile").content.decode()) == moved
    assert client.post(page, {"email": OTHER, "name": "Mia", "is_active": "on"}).status_code == 302
    found = User.objects.get(pk=mia.pk)
    assert (found.name, found.email, found.email_verified_at is None) == ("Mia", OTHER if moved else mia.email, moved)
