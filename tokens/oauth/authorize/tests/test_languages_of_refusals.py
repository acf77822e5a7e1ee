"""What a page says of a refusal stands in the reader's language, with how long to wait."""

import httpx
import pytest

from conftest import PASSWORD
from tokens.oauth.tests.walk import form_to

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("throttled", "signing_key")]


@pytest.mark.parametrize(
    ("language", "words"),
    [("de", "Es waren zu viele Versuche. Versuchen Sie es in"), ("en", "There were too many attempts: try again in")],
)
async def test_the_wait_is_told_in_the_readers_language(api: httpx.AsyncClient, language: str, words: str) -> None:
    """After as many wrong passwords as the throttle allows."""
    api.headers["Accept-Language"] = language
    page = await api.get("/account/signin")
    for _ in range(60):
        fields = {**form_to(page, "/oauth/signin").fields, "email": "mia@example.com", "password": f"not {PASSWORD}"}
        page = await api.post("/oauth/signin", data=fields)
        if page.status_code == 429:
            break
    assert page.status_code == 429
    assert words in page.text
