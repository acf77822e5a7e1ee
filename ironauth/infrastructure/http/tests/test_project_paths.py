"""Which paths belong to a project: those that its own patterns match first, and those that nothing matches."""

import sys
from types import ModuleType

import pytest
from django.http import HttpResponse
from django.urls import include, path
from pytest_django import Settings

from ironauth.infrastructure.http.lanes import is_api_path, is_projects


@pytest.fixture
def project(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with a page of its own, one behind ours, and ours between them."""
    urls = ModuleType("a_project_urls")
    view = lambda _request: HttpResponse()  # noqa: E731 - it is never called
    patterns = [path("", view), path("shop/", include([path("tea", view)])), path("", include("ironauth.urls"))]
    urls.__dict__["urlpatterns"] = [*patterns, path("ping", view), path("late", view)]
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("target", "theirs"),
    [
        ("/", True), ("/shop/tea", True), ("/shop/coffee", True), ("/late", True), ("/nowhere", True),
        ("/ping", False), ("/api/v1/access/me", False), ("/oauth/token", False), ("/account/signin", False),
    ],
)  # fmt: skip
def test_the_first_pattern_decides(target: str, theirs: bool) -> None:
    """What matches in ours first keeps its lane; everything else goes to Django's handler."""
    assert is_projects(target) is theirs
    assert is_api_path({"path": target}) is not theirs


@pytest.mark.parametrize("target", ["/", "/shop/tea", "/ping", "/nowhere"])
def test_without_a_project_every_path_is_ours(target: str, settings: Settings) -> None:
    """So it is with our own URLs, and with others that do not include them."""
    assert not is_projects(target)
    settings.ROOT_URLCONF = "tokens.oauth.urls"
    assert not is_projects(target)
