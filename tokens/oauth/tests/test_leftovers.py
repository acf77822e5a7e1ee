"""What the purge leaves of codes, pushed requests and device grants: what may still be used, or used twice."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from tokens.oauth.codes import LIFE_S
from tokens.oauth.expiry import KEEP_S
from tokens.oauth.models import AuthorizationCode, DeviceGrant, PushedRequest
from tokens.oauth.tests.flow import approve
from tokens.oauth.tests.material import make_client
from tokens.purge import purge_expired

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


@pytest.mark.parametrize(("after_s", "gone"), [(KEEP_S - 2, 0), (KEEP_S + 2, 9)])
def test_they_go_an_hour_after_their_end(new_account: Callable[[], Account], after_s: int, gone: int) -> None:
    """Used or not, in batches, and never what is good; a session outlives the code it came from."""
    client, _ = make_client()
    account = new_account()
    end = clock.now() + timedelta(seconds=LIFE_S)
    for number in range(3):
        approve(client, account.id)
        common: dict[str, Any] = {"digest": str(number), "client": client, "expires_at": end}
        PushedRequest.objects.create(parameters={}, **common)
        DeviceGrant.objects.create(user_code=str(number), interval_s=5, **common)
    AuthorizationCode.objects.filter(pk=AuthorizationCode.objects.values("pk")[:1]).update(used_at=clock.now())
    with clock.shifted(LIFE_S + after_s):
        assert purge_expired(batch=2).oauth == gone
    kinds = (AuthorizationCode, PushedRequest, DeviceGrant)
    assert sum(kind.objects.count() for kind in kinds) == 9 - gone
