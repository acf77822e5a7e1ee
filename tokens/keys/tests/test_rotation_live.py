"""Keys rotated and dropped by another process while a real server runs."""

import time
from collections.abc import Callable

import httpx
import pytest

from conftest import PASSWORD, bearer
from tokens.keys.units import drop, rotate
from tokens.tests.browser import ME, REFRESH, SIGNIN, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

BOUND_S = 5.0  # IRONAUTH_L1_MAX_STALE_S and key_store.MAX_AGE_S
JWKS = "/.well-known/jwks.json"


@pytest.fixture
def server(serve_process: Callable[..., str], signing_key: str) -> str:
    """The address of a server that knows nothing of this process but the database."""
    return serve_process()


def signed_in(server: str, email: str) -> Pair:
    """Sign up and in."""
    httpx.post(f"{server}/api/v1/access/signup", json={"email": email, "password": PASSWORD}).raise_for_status()
    answer = httpx.post(f"{server}{SIGNIN}", json={"email": email, "password": PASSWORD})
    pair: Pair = answer.raise_for_status().json()
    return pair


def me(server: str, pair: Pair) -> int:
    """Return the status of /me."""
    return httpx.get(f"{server}{ME}", headers=bearer(pair)).status_code


def kids(server: str) -> set[str]:
    """Return the kids the server publishes."""
    return {key["kid"] for key in httpx.get(f"{server}{JWKS}").json()["keys"]}


def seconds_until(condition: Callable[[], bool]) -> float:
    """Return how long it took for ``condition`` to come true, checking until twice the bound."""
    started = time.monotonic()
    while not condition() and time.monotonic() < started + 2 * BOUND_S:
        time.sleep(0.05)
    return time.monotonic() - started


def test_rotation_needs_no_restart(server: str, signing_key: str, new_email: Callable[[], str]) -> None:
    """A rotation elsewhere is followed within the bound; not one request fails meanwhile, old tokens included."""
    pair = signed_in(server, new_email())
    old = pair
    active = rotate(at_once=True)
    assert active in kids(server)
    statuses = set()

    def follows() -> bool:
        nonlocal pair
        answer = httpx.post(f"{server}{REFRESH}", json={"refresh_token": pair["refresh_token"]})
        pair = answer.raise_for_status().json()
        statuses.update({me(server, old), me(server, pair)})
        return len(kids(server)) == 3

    assert seconds_until(follows) < BOUND_S
    assert statuses == {200}


def test_dropped_key_is_refused_within_the_bound(server: str, signing_key: str, new_email: Callable[[], str]) -> None:
    """A key dropped elsewhere stops verifying here within the bound, warm tokens too, and sign-in goes on."""
    email = new_email()
    pair = signed_in(server, email)
    assert me(server, pair) == 200
    drop(signing_key)
    assert seconds_until(lambda: me(server, pair) == 401) < BOUND_S
    assert seconds_until(lambda: signing_key not in kids(server)) < BOUND_S
    fresh = httpx.post(f"{server}{REFRESH}", json={"refresh_token": pair["refresh_token"]}).raise_for_status().json()
    assert me(server, fresh) == 200
    assert me(server, pair) == 401
