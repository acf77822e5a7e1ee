"""No page shows anybody a word that is not in their language, whatever it says or refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from django.conf import settings as live
from django.test.signals import template_rendered
from pytest_django import Settings

from accounts.federation.models import UpstreamProvider
from ironauth import pages as start_pages
from ironauth.tests.languages import marked
from ironauth.tests.languages.marked import Readings
from ironauth.tests.languages.organization_walk import organizations
from ironauth.tests.languages.walks import WALKS, Browser
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import responses
from tokens.upstream.tests.provider import FakeProvider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key"), pytest.mark.live]

ROOT: Final = Path(live.BASE_DIR)
#: For developers.
ENGLISH: Final = {"ironauth/docs.html", "ironauth/errors.html", "ironauth/error_code.html"}


@pytest.fixture
def readings() -> Iterator[Readings]:
    """Read marked texts; pages that were kept in memory before have none, and those kept now serve no other test."""
    kept = (authorize_pages._sign_in_page, responses._go_on_page, start_pages._page)
    with marked.spoken() as language:
        for one in kept:
            one.cache_clear()
        yield Readings(language)
    for one in kept:
        one.cache_clear()


@pytest.fixture
def seen() -> Iterator[set[str]]:
    """Names of the templates that are rendered."""
    names: set[str] = set()

    def note(template: Any, **_: object) -> None:
        names.add(template.name)

    template_rendered.connect(note)
    yield names
    template_rendered.disconnect(note)


def templates() -> set[str]:
    """Return the names of the templates of pages that people see who are no staff."""
    folders = [
        ("ironauth", "ironauth"), ("accounts", "accounts/pages"), ("tokens", "tokens/oauth"),
    ]  # fmt: skip
    return {
        path.relative_to(ROOT / app / "templates").as_posix()
        for app, folder in folders
        for path in (ROOT / app / "templates" / folder).rglob("*.html")
    }


async def test_every_page_is_in_the_readers_language(
    api: httpx.AsyncClient, readings: Readings, seen: set[str], settings: Settings, provider: FakeProvider
) -> None:
    """Success and every refusal that forms can meet: no word outside of translated texts, and no page is left out."""
    settings.IRONAUTH_BRAND_NAME = "Знак"
    settings.IRONAUTH_SUPPORT_URL = settings.IRONAUTH_TERMS_URL = settings.IRONAUTH_PRIVACY_URL = "https://example.com/"
    settings.IRONAUTH_EMAIL_VERIFICATION, settings.IRONAUTH_SIGN_UP = "off", "open"
    await UpstreamProvider.objects.all().aupdate(name="Акме")
    browser = Browser(api, readings, settings, provider)
    for walk in (*WALKS, organizations):
        await walk(browser)
    readings.done(1_000)
    assert templates() - seen == ENGLISH
