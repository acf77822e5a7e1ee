"""A plugin of the root conftest: a test fails when the product, or Django in it, sets a cookie the registry lacks."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.http.response import HttpResponseBase

from ironauth.config import cookies as cookie_names

_patch = pytest.MonkeyPatch()
_faults: list[str] = []


def fault_of(name: str, options: dict[str, Any]) -> str | None:
    """Return what is wrong with a cookie that is set with these options of ``set_cookie``; None for one of ours."""
    secure: bool = settings.IRONAUTH_COOKIE_SECURE
    ours = {cookie_names.name_of(cookie, secure=secure): cookie for cookie in cookie_names.REGISTRY}
    ours |= {
        settings.SESSION_COOKIE_NAME: cookie_names.ADMIN_SESSION,
        settings.CSRF_COOKIE_NAME: cookie_names.ADMIN_CSRF,
    }
    cookie = ours.get(name)
    if cookie is None:
        return f"{name} is not in the registry"
    wanted: dict[str, Any] = {"path": "/", "domain": None, "samesite": cookie.samesite}
    if options.get("max_age") != 0:  # what is deleted by Django has no more
        wanted |= {"httponly": True}
    given = {"path": "/", "domain": None, **options}
    wrong = {key: given.get(key) for key, value in wanted.items() if given.get(key) != value}
    return f"{name} has {wrong}" if wrong else None


def pytest_configure() -> None:
    """Listen from now on."""
    set_cookie = HttpResponseBase.set_cookie

    def noted(self: HttpResponseBase, key: str, value: str = "", *args: Any, **options: Any) -> None:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        fault = None if ".tests." in caller or args else fault_of(key, options)
        if fault or (args and ".tests." not in caller):
            _faults.append(f"{caller}: {fault or key}")
        set_cookie(self, key, value, *args, **options)

    _patch.setattr(HttpResponseBase, "set_cookie", noted)


def pytest_unconfigure() -> None:
    """Stop listening."""
    _patch.undo()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Judge the cookies of a test."""
    _faults.clear()
    yield
    if _faults:
        pytest.fail("cookies: " + "; ".join(sorted(set(_faults))), pytrace=False)
