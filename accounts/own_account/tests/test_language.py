"""The language a person has chosen: of the pages in their browser, and of every message to them."""

import httpx
import pytest

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser, SignIn
from accounts.outbox import queue as outbox
from accounts.outbox import rendering
from accounts.outbox.kinds import Kind
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.db.unit_of_work import database

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
LANGUAGE, PAGE = "/api/v1/access/me/language", "/account/forgot"


async def in_browser(api: httpx.AsyncClient, user: User) -> None:
    """Sign in as the account page does: with cookies."""
    api.headers["Sec-Fetch-Site"] = "same-origin"
    form = {"username": user.email, "password": PASSWORD}
    assert (await api.post("/api/v1/access/signin", data=form)).status_code == 204


async def spoken(api: httpx.AsyncClient, query: str = "", **cookies: str) -> str:
    """Return the language of a page for a browser that prefers Spanish."""
    for name, value in cookies.items():
        api.cookies.set(name, value)
    return (await api.get(f"{PAGE}{query}", headers={"Accept-Language": "es"})).headers["content-language"]


@pytest.mark.usefixtures("signing_key")
async def test_pages_have_the_chosen_language(api: httpx.AsyncClient, make_user: MakeUser) -> None:
    """It counts before the browser's, and after what the request itself asks for; "" gives the browser its say back."""
    user = await database().write(make_user)
    await in_browser(api, user)
    assert (await api.get(LANGUAGE)).json() == {"language": ""}
    assert await spoken(api) == "es"
    answer = await api.put(LANGUAGE, json={"language": "de"})
    assert (answer.status_code, answer.json()) == (200, {"language": "de"})
    assert await spoken(api) == "de"
    assert await spoken(api, "?ui_locales=fr") == "fr"
    assert await spoken(api) == "de"  # also before the cookie that the last request left
    assert (await api.put(LANGUAGE, json={"language": ""})).status_code == 200
    assert await spoken(api) == "fr"


@pytest.mark.usefixtures("signing_key")
async def test_another_browser_learns_it(api: httpx.AsyncClient, make_user: MakeUser) -> None:
    """The account page asks for it, which is enough; and somebody without a choice does not keep that of another."""
    chosen, other = [await database().write(make_user, language=code) for code in ("fr", "")]
    await in_browser(api, chosen)
    assert (await api.get(LANGUAGE)).json() == {"language": "fr"}
    assert await spoken(api) == "fr"
    await in_browser(api, other)
    await api.get(LANGUAGE)
    assert await spoken(api) == "es"


async def test_a_bearer_is_given_no_cookie(api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn) -> None:
    """Who calls the API with a token may be a server."""
    header = await sign_in(await database().write(make_user))
    answer = await api.put(LANGUAGE, json={"language": "fr"}, headers=header)
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert (await api.get(LANGUAGE, headers=header)).json() == {"language": "fr"}


@pytest.mark.parametrize("wrong", ["xx", "DE", "de-AT", "d" * 5000, 1, None, ["de"], "de\x00"])
async def test_a_language_of_nobody_is_refused(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn, wrong: object
) -> None:
    """Only what pages speak can be chosen; the field is named, and nothing changes."""
    user = await database().write(make_user, language="es")
    header = await sign_in(user)
    answer = await api.put(LANGUAGE, json={"language": wrong}, headers=header)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["language"]
    assert (await api.get(LANGUAGE, headers=header)).json() == {"language": "es"}


async def test_only_who_is_signed_in_chooses(api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn) -> None:
    """Without a token 401; for another person nothing changes, and the trail has who changed what."""
    mine, other = [await database().write(make_user) for _ in range(2)]
    assert (await api.put(LANGUAGE, json={"language": "de"})).status_code == 401
    assert (await api.get(LANGUAGE)).status_code == 401
    await api.put(LANGUAGE, json={"language": "de"}, headers=await sign_in(mine))
    stored = await database().read(lambda: dict(User.objects.values_list("pk", "language")))
    assert (stored[mine.pk], stored[other.pk]) == ("de", "")
    events = await database().read(lambda: list(AuditEvent.objects.filter(event="profile_changed")))
    assert [(event.user_id, event.details) for event in events] == [(mine.pk, {"fields": ["language"]})]


@pytest.mark.parametrize(("own", "subject"), [("de", "Passwort"), ("en", "password"), ("", "password")])
def test_a_message_has_the_language_of_its_reader(make_user: MakeUser, own: str, subject: str) -> None:
    """A choice counts, English too; without one the message is in the language it was queued in."""
    user = make_user(language=own)
    mail_id = outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk)
    claimed = outbox.claim(mail_id)
    assert claimed is not None
    assert subject in rendering.render(claimed).subject


def test_a_choice_takes_the_place_of_the_language_of_the_page(make_user: MakeUser) -> None:
    """Who asked for the message may read French: the person gets English, having chosen it."""
    facts = []
    for own in ("en", ""):
        user = make_user(language=own)
        mail_id = outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk)
        OutgoingMail.objects.filter(pk=mail_id).update(facts={"language": "fr", "kept": 1})
        claimed = outbox.claim(mail_id)
        assert claimed is not None
        facts.append(claimed.facts)
    assert facts == [{"language": "en", "kept": 1}, {"language": "fr", "kept": 1}]
