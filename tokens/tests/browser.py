"""What the tests of the HTTP API share: addresses, headers, and a browser's sign-in."""

from typing import Any

import httpx

from conftest import bearer

SIGNIN = "/api/v1/access/signin"
REFRESH = "/api/v1/access/refresh"
LOGOUT = "/api/v1/access/logout"
LOGOUT_ALL = "/api/v1/access/logout-all"
VERIFY = "/api/v1/access/verify"
PASSWORD_URL = "/api/v1/access/password"
ME = "/api/v1/access/me"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}

Member = dict[str, Any]
Pair = dict[str, Any]


async def by_cookie(api: httpx.AsyncClient, member: Member) -> httpx.Response:
    """Sign in as a browser's form does; the client keeps the cookies."""
    answer = await api.post(SIGNIN, data={"username": member["email"], "password": member["password"]})
    assert answer.status_code == 204, answer.text
    return answer


async def me(api: httpx.AsyncClient, pair: Pair) -> int:
    """Return the status of /me with the pair's access token."""
    return (await api.get(ME, headers=bearer(pair))).status_code


def cookie_lines(answer: httpx.Response) -> dict[str, str]:
    """Return the Set-Cookie lines by cookie name."""
    return {line.split("=", 1)[0]: line for line in answer.headers.get_list("set-cookie")}
