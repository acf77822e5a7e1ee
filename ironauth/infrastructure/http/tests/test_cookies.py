"""Cookie names and attributes, and the origin check."""

import pytest
from django.http import HttpResponse
from django.test import RequestFactory, override_settings

from ironauth.config.cookies import ACCESS, REFRESH
from ironauth.infrastructure.http import cookies
from tokens.access.credentials import access_name


@pytest.mark.parametrize(("secure", "prefix"), [(True, "__Host-"), (False, "")])
def test_cookies_are_as_the_contract_says(secure: bool, prefix: str) -> None:
    """HttpOnly, Path=/, no Domain, access Lax, refresh Strict, Secure with the prefix that demands it."""
    with override_settings(IRONAUTH_COOKIE_SECURE=secure):
        response = HttpResponse()
        cookies.give(response, ACCESS, "a", max_age_s=600)
        cookies.give(response, REFRESH, "r", max_age_s=1_200)
        assert cookies.name_of(ACCESS) == access_name() == f"{prefix}access_token"
        assert cookies.name_of(REFRESH) == f"{prefix}refresh_token"
    access, refresh = response.cookies[f"{prefix}access_token"], response.cookies[f"{prefix}refresh_token"]
    assert (access.value, access["max-age"], access["samesite"]) == ("a", 600, "Lax")
    assert (refresh.value, refresh["max-age"], refresh["samesite"]) == ("r", 1_200, "Strict")
    for morsel in (access, refresh):
        assert (morsel["path"], morsel["domain"], morsel["httponly"]) == ("/", "", True)
        assert bool(morsel["secure"]) is secure


def test_clearing_expires_both() -> None:
    """The same attributes, so that the browser takes them for the same cookies."""
    with override_settings(IRONAUTH_COOKIE_SECURE=True):
        response = HttpResponse()
        cookies.clear(response)
    for name in ("__Host-access_token", "__Host-refresh_token"):
        morsel = response.cookies[name]
        assert (morsel.value, morsel["max-age"], morsel["secure"], morsel["path"]) == ("", 0, True, "/")


@pytest.mark.parametrize(
    ("headers", "secure", "allowed"),
    [
        ({}, True, False),
        ({"Sec-Fetch-Site": "same-origin"}, True, True),
        ({"Sec-Fetch-Site": "same-site"}, True, False),
        ({"Sec-Fetch-Site": "cross-site"}, True, False),
        ({"Sec-Fetch-Site": "none"}, True, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}, True, True),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://testserver"}, True, False),
        ({"Origin": "https://testserver"}, True, True),
        ({"Origin": "https://TESTSERVER:443"}, True, True),
        ({"Origin": "http://testserver"}, True, False),
        ({"Origin": "http://testserver"}, False, True),
        ({"Origin": "https://testserver"}, False, True),
        ({"Origin": "https://testserver:8443"}, True, False),
        ({"Origin": "https://testserver.evil.example"}, True, False),
        ({"Origin": "https://evil.example"}, True, False),
        ({"Origin": "https://id.example"}, True, True),  # the issuer
        ({"Origin": "https://app.example"}, True, True),
        ({"Origin": "https://sub.app.example"}, True, False),
        ({"Origin": "null"}, True, False),
        ({"Origin": "https://[broken"}, True, False),
        ({"Origin": "https://testserver:99999"}, True, False),
        ({"Origin": ""}, True, False),
    ],
)
@override_settings(IRONAUTH_TRUSTED_ORIGINS=["https://app.example"], IRONAUTH_ISSUER="https://id.example")
def test_only_this_site_and_trusted_origins_may_use_cookies(
    headers: dict[str, str], secure: bool, allowed: bool
) -> None:
    """The browser's word decides; without it nothing is allowed."""
    request = RequestFactory().post("/", headers=headers, secure=secure)
    assert cookies.origin_allowed(request) is allowed
