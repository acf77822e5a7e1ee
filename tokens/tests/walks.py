"""Parts of the walk after which nothing secret is to be found anywhere: somebody with a passkey, and staff."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from asgiref.sync import sync_to_async

from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from conftest import PASSWORD, bearer
from tokens.tests.browser import SIGNIN, Pair

Post = Callable[..., Awaitable[dict[str, Any]]]
ACCESS, USERS = "/api/v1/access", "/api/v1/users"
ADMIN, ADMIN_LOGIN = "/admin/accounts/user/", "/admin/login/"


async def with_a_passkey(post: Post, email: str) -> tuple[list[Pair], list[str]]:
    """Add a passkey, sign in by it alone and as second factor, prove it again; return pairs, and tokens and codes."""
    person, device = {"email": email, "password": PASSWORD}, Authenticator()
    await post(f"{ACCESS}/signup", 201, person)
    pairs, used = [await post(SIGNIN, 200, person)], []

    async def answered(path: str, pair: Pair | None = None, **more: str) -> dict[str, Any]:
        options = await post(path, 200, more, pair)
        used.append(options["challenge_token"])
        touch = device.create if "user" in options["publicKey"] else device.get
        return {"challenge_token": used[-1], "credential": touch(options["publicKey"]), **more}

    added = await post(
        f"{ACCESS}/mfa/passkeys", 201, await answered(f"{ACCESS}/mfa/passkeys/options", pairs[0]), pairs[0]
    )
    used += added["recovery_codes"]
    pairs.append(await post(f"{SIGNIN}/passkey", 200, await answered(f"{SIGNIN}/passkey/options")))
    used.append((await post(SIGNIN, 401, person))["mfa_token"])
    proof = await answered(f"{SIGNIN}/mfa/options", mfa_token=used[-1])
    pairs.append(await post(f"{SIGNIN}/mfa", 200, proof))
    await post(f"{SIGNIN}/mfa", 401, proof)  # a challenge counts once
    await post(f"{ACCESS}/step-up", 204, await answered(f"{ACCESS}/step-up/options", pairs[-1]), pairs[-1])
    codes = await post(f"{ACCESS}/mfa/recovery-codes", 200, {"password": PASSWORD}, pairs[-1])
    return pairs, used + codes["recovery_codes"]


async def as_staff(post: Post, client: httpx.AsyncClient, email: str) -> tuple[list[Pair], list[str], list[str]]:
    """Do what staff do to somebody, by the API and in the admin; return pairs, passwords and cookies."""
    given, chosen, wrong = (f"{word} {secrets.token_hex(8)}" for word in ("given", "chosen", "wrong"))
    await sync_to_async(User.objects.create_superuser)(email, PASSWORD)
    pair = await post(SIGNIN, 200, {"email": email, "password": PASSWORD})
    somebody = await post(USERS, 201, {"email": f"made-by-{email}", "password": given}, pair)
    theirs = await post(SIGNIN, 200, {"email": somebody["email"], "password": given})
    headers, page = bearer(pair), f"{USERS}/{somebody['id']}"
    await post("/api/v1/roles", 201, {"name": "walkers", "permissions": []}, pair)
    for method, path, body in (
        ("PATCH", page, {"name": "Somebody"}),
        ("PUT", f"{page}/roles/walkers", None),
        ("DELETE", f"{page}/mfa", None),
        ("DELETE", f"{page}/sessions", None),
        ("GET", f"{page}/sessions", None),
        ("GET", "/api/v1/audit", None),
    ):
        answer = await client.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text

    async def fill_in(path: str, **fields: str) -> int:
        body = {"csrfmiddlewaretoken": client.cookies["csrftoken"], **fields}
        return (await client.post(path, data=body)).status_code

    assert (await client.get(ADMIN_LOGIN)).status_code == 200
    assert await fill_in(ADMIN_LOGIN, username=email, password=wrong) == 200
    assert await fill_in(ADMIN_LOGIN, username=email, password=PASSWORD) == 302
    cookies = [client.cookies["admin_session"]]
    new = {"password1": chosen, "password2": chosen, "usable_password": "true"}
    assert await fill_in(f"{ADMIN}{somebody['id']}/password/", **new) == 302
    for action in ("end_all_sessions", "deactivate"):
        chosen_rows = {"action": action, "_selected_action": somebody["id"], "confirmed": "yes"}
        assert await fill_in(ADMIN, **chosen_rows) == 302
    assert await fill_in("/admin/logout/") in (200, 302)
    client.cookies.clear()
    assert (await client.request("DELETE", page, headers=headers)).status_code == 204
    return [pair, theirs], [given, chosen, wrong], cookies
