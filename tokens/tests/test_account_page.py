"""The page of one's own account without a script: who sees it, and every row's act by its form."""

import json
import re
from datetime import datetime
from html import unescape
from typing import Any
from uuid import uuid4

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.staticfiles import finders
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.outbox.models import OutgoingMail
from accounts.pages import meter
from accounts.pages.acts import ROWS
from accounts.pages.proving import PROOFS
from accounts.users.models import User
from accounts.users.step_up import RECENT_S
from conftest import PASSWORD
from ironauth.config.cookies import OWN_LANGUAGE, REFRESH
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from ironauth.tests.sweep import HOSTILE
from tokens.access.credentials import access_name
from tokens.oauth.models import Consent
from tokens.oauth.tests.flow import signed_on
from tokens.oauth.tests.material import make_client
from tokens.sessions.models import Session
from tokens.tests.browser import CROSS_SITE, SAME_ORIGIN, Member, by_cookie
from tokens.tests.second_factor import App

pytestmark = [pytest.mark.django_db(transaction=True)]

HOME = "/account/security"
NEW_PASSWORD = "seven amber kites over Lyon"
SIGN_IN = "/account/signin"


@pytest.fixture
async def page(api: httpx.AsyncClient, member: Member) -> httpx.AsyncClient:
    """A browser that is signed in."""
    await by_cookie(api, member)
    api.headers.update(SAME_ORIGIN)
    return api


def forms(text: str, act: str) -> list[tuple[str, dict[str, str]]]:
    """Return the forms with this act: their addresses, and the values that they have."""
    found = []
    for attributes, body in re.findall(r"<form([^>]*)>(.*?)</form>", text, re.DOTALL):
        values = {}
        for field in re.findall(r"<input[^>]*>", body):
            name, value = (re.search(rf'\s{key}="([^"]*)"', field) for key in ("name", "value"))
            if name:
                values[name[1]] = unescape(value[1]) if value else ""
        if values.get("act", "sign_out") == act:
            action = re.search(r'action="([^"]+)"', attributes)
            found.append((action[1] if action else "", values))
    return found


async def press(page: httpx.AsyncClient, path: str, act: str, **typed: str) -> httpx.Response:
    """Open a row's page and send its form."""
    shown = await page.get(path)
    assert shown.status_code == 200, shown.text
    return await send(page, shown.text, path, act, **typed)


async def send(page: httpx.AsyncClient, text: str, path: str, act: str, **typed: str) -> httpx.Response:
    """Send the first form of a page that has this act."""
    action, values = forms(text, act)[0]
    return await page.post(action or path, data={**values, **typed})


async def done(page: httpx.AsyncClient, answer: httpx.Response, words: str) -> str:
    """Follow the way back after an act, which says what was done."""
    assert answer.status_code == 303, answer.text
    shown = await page.get(answer.headers["location"])
    assert f'<p role="status" class="done">{words}</p>' in shown.text
    return shown.text


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the clock be ahead."""
    before = clock._source
    monkeypatch.setattr(clock, "_source", lambda: before() + seconds)


async def test_a_stranger_is_sent_to_sign_in_and_comes_back(api: httpx.AsyncClient, signing_key: str) -> None:
    """The overview, a row, a form sent too late; from another site the page first asks for itself from here."""
    for path in (HOME, f"{HOME}/password"):
        there = f"{SIGN_IN}?next={path.replace('/', '%2F')}"
        for answer in (await api.get(path), await api.post(path, data={"act": "change"}, headers=SAME_ORIGIN)):
            assert (answer.status_code, answer.headers["location"]) == (303, there)
        bounced = await api.get(path, headers={"Sec-Fetch-Site": "cross-site"})
        assert bounced.status_code == 200
        assert f'content="0; url={path}"' in bounced.text
    assert (await api.post(HOME, data={}, headers=CROSS_SITE)).status_code == 403
    assert (await api.post(HOME, data={})).status_code == 403


async def test_the_overview_has_a_line_for_every_row(page: httpx.AsyncClient, member: Member) -> None:
    """Each leads to a page of its own; what there is nothing of to do is left out. No page needs a script."""
    shown = await page.get(HOME)
    linked = re.findall(rf'href="{HOME}/(\w+)"', shown.text)
    assert linked == [slug for slug in ROWS if slug not in ("recovery", "identities", "devices")]
    assert member["email"] in shown.text
    for slug in ROWS:
        one = await page.get(f"{HOME}/{slug}")
        assert one.status_code == 200
        assert "<main hidden" not in one.text
        policy = one.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert one.headers["cache-control"] == "no-store"
        files = re.findall(r'(?:src|href)="/static/([^"]+)"', one.text)
        assert all(finders.find(file) for file in files)
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", one.text)
        fields = {match[1] for match in re.finditer(r'<input id="([^"]+)"', one.text)}
        assert fields <= set(re.findall(r'<label for="([^"]+)"', one.text))
    for path in (f"{HOME}/nothing", f"{HOME}/passkeys/{member['id']}"):
        assert (await page.get(path)).status_code == 404


async def test_an_expired_access_token_is_renewed(page: httpx.AsyncClient, member: Member) -> None:
    """On opening a page and on sending a form; not for a refresh token that is no good, nor for another site's GET."""
    page.cookies.delete(access_name())
    shown = await page.get(f"{HOME}/name")
    assert shown.status_code == 200
    assert access_name() in page.cookies
    page.cookies.delete(access_name())
    text = await done(
        page, await send(page, shown.text, f"{HOME}/name", "change", name="Ada <3"), "Your changes were saved."
    )
    assert 'value="Ada &lt;3"' in text
    page.cookies.delete(access_name())
    elsewhere = await page.get(HOME, headers={"Sec-Fetch-Site": "cross-site"})
    assert "http-equiv" in elsewhere.text
    assert access_name() not in page.cookies
    await Session.objects.all().adelete()
    assert (await page.get(HOME)).status_code == 303


async def test_a_form_is_good_for_who_opened_it(page: httpx.AsyncClient, member: Member) -> None:
    """Without its mark, with another one, and after somebody else has signed in here: nothing happens, as it says."""
    shown = (await page.get(f"{HOME}/name")).text
    for mark in ("", "A" * 43, "x"):
        answer = await send(page, shown, f"{HOME}/name", "change", name="Eve", form=mark)
        assert answer.status_code == 403
        assert 'value="Eve"' in answer.text
    other = {"email": "other@example.com", "password": PASSWORD}
    await page.post("/api/v1/access/signup", json=other)
    await by_cookie(page, other)
    assert (await send(page, shown, f"{HOME}/name", "change", name="Eve")).status_code == 403
    assert not await User.objects.filter(name="Eve").aexists()


async def test_what_is_wrong_stands_at_its_field(page: httpx.AsyncClient, member: Member) -> None:
    """A wrong password, a new one that is too short, an address that is none; what is no secret stays."""
    path = f"{HOME}/password"
    wrong = await press(page, path, "change", current_password="not the password at all", new_password=NEW_PASSWORD)
    assert wrong.status_code == 401
    assert 'aria-describedby="current_password-problem"' in wrong.text
    assert "not the password" not in wrong.text
    short = await press(page, path, "change", current_password=PASSWORD, new_password="short")
    assert short.status_code == 400
    assert 'id="new_password-problem"' in short.text
    assert "at least 15" in short.text
    address = await press(page, f"{HOME}/email", "change", new_email="no address", password=PASSWORD)
    assert address.status_code == 400
    assert 'value="no address"' in address.text
    assert 'id="new_email-problem"' in address.text
    for act in ("", "nothing", "\0"):
        values = forms((await page.get(path)).text, "change")[0][1]
        answer = await page.post(path, data={**values, "act": act})
        assert (answer.status_code, "no such act" in answer.text) == (400, True)


async def test_a_language_that_is_not_there_is_said_at_the_field(page: httpx.AsyncClient) -> None:
    """In the language of the page; one of the list is taken, and then nothing is wrong."""
    for code, words in (
        ("en", "Choose one of the languages in the list."),
        ("de", "Wählen Sie eine der Sprachen aus der Liste."),
        ("fr", "Choisissez une des langues de la liste."),
        ("es", "Elija uno de los idiomas de la lista."),
    ):
        assert (await press(page, f"{HOME}/language", "change", language=code)).status_code == 303
        for wrong in ("xx", "de-", "a\0b"):
            refused = await press(page, f"{HOME}/language", "change", language=wrong)
            assert refused.status_code == 400
            assert f'<ul class="reasons" id="language-problem"><li>{words}</li></ul>' in refused.text
            assert 'aria-invalid="true" aria-describedby="language-problem"' in refused.text
        assert "language-problem" not in (await page.get(f"{HOME}/language")).text


async def test_name_language_address_and_password(page: httpx.AsyncClient, member: Member) -> None:
    """Each is changed by its form, as the page says."""
    await done(page, await press(page, f"{HOME}/name", "change", name="Ada"), "Your changes were saved.")
    german = await press(page, f"{HOME}/language", "change", language="de")
    assert cookies.name_of(OWN_LANGUAGE) in page.cookies
    assert 'lang="de"' in (await page.get(german.headers["location"])).text
    await press(page, f"{HOME}/language", "change", language="")
    asked = await press(page, f"{HOME}/email", "change", new_email="new@example.com", password=PASSWORD)
    await done(page, asked, "Open the message that is on its way to the new address.")
    assert await OutgoingMail.objects.filter(recipient="new@example.com").aexists()
    before = page.cookies[cookies.name_of(REFRESH)]
    changed = await press(page, f"{HOME}/password", "change", current_password=PASSWORD, new_password=NEW_PASSWORD)
    await done(page, changed, "Your password was changed.")
    assert page.cookies[cookies.name_of(REFRESH)] != before
    user = await User.objects.aget(pk=member["id"])
    assert user.name == "Ada"
    assert await sync_to_async(user.check_password)(NEW_PASSWORD)


async def test_an_app_and_recovery_codes(page: httpx.AsyncClient, member: Member) -> None:
    """QR code, link and key; a wrong code shows the same key again; codes are shown once, as a file too; then off."""
    shown = await press(page, f"{HOME}/codes", "start")
    assert shown.status_code == 200
    assert 'src="data:image/svg+xml,' in shown.text
    assert 'inputmode="numeric"' in shown.text
    match = re.search(r'href="(otpauth://totp/[^"]+)"', shown.text)
    assert match
    secret = re.search(r'data-copied="([A-Z2-7]+)"', shown.text)
    assert secret
    app = App(secret[1])
    refused = await send(page, shown.text, f"{HOME}/codes", "confirm", code=app.wrong())
    assert refused.status_code == 401
    assert f'data-copied="{secret[1]}"' in refused.text
    assert 'id="code-problem"' in refused.text
    codes = await send(page, refused.text, f"{HOME}/codes", "confirm", code=app.code(-1))
    assert codes.status_code == 200
    listed = re.findall(r"<li><code>([^<]+)</code></li>", codes.text)
    assert len(listed) == 10
    file = re.search(r'href="data:text/plain;charset=utf-8,([^"]+)" download="recovery-codes.txt"', codes.text)
    assert file
    assert all(code in file[1] for code in listed)
    assert "10 left" in (await page.get(HOME)).text
    again = await press(page, f"{HOME}/recovery", "new", password=PASSWORD)
    assert len(set(re.findall(r"<li><code>([^<]+)</code></li>", again.text)) - set(listed)) == 10
    assert (await press(page, f"{HOME}/codes", "remove", password="not this one at all")).status_code == 401
    off = await press(page, f"{HOME}/codes", "remove", password=PASSWORD)
    await done(page, off, "One-time codes were removed.")


async def test_sessions_and_applications(page: httpx.AsyncClient, member: Member) -> None:
    """One is ended, then all others, an application is removed; another person's session is not theirs to end."""
    for agent in ("Mozilla/5.0 (Windows NT 10.0) Firefox/140.0", "curl/8.9"):
        body = {"email": member["email"], "password": PASSWORD}
        await page.post("/api/v1/access/signin", json=body, headers={"User-Agent": agent, "Cookie": ""})
    path = f"{HOME}/sessions"
    shown = (await page.get(path)).text
    assert "Firefox, Windows" in shown
    assert len(forms(shown, "end")) == 3
    for _ in range(2):  # a second click finds it done
        await done(page, await send(page, shown, path, "end"), "That device was signed out.")
    assert len(forms((await page.get(path)).text, "end")) == 2
    other = await sync_to_async(User.objects.create_user)("other@example.com", PASSWORD)
    theirs = await sync_to_async(signed_on)(other.pk)
    await page.post(f"{path}/{theirs.pk}", data=forms(shown, "end")[0][1])
    assert (await Session.objects.aget(pk=theirs.pk)).revoked_at is None
    nothing = "It is not on the list, so nothing was changed. This is what is there now."
    for never in (theirs.pk, uuid4()):  # nobody is told that what is not theirs, or never was, has been signed out
        answer = await page.post(f"{path}/{never}", data=forms(shown, "end")[0][1])
        await done(page, answer, nothing)
    with clock.shifted(WITHIN_S):  # another tab, later
        await done(page, await send(page, shown, path, "end"), nothing)
    if len(forms((await page.get(path)).text, "end_others")):
        await done(page, await press(page, path, "end_others"), "You are signed out everywhere else.")
    assert len(forms((await page.get(path)).text, "end")) == 1
    client, _ = await sync_to_async(make_client)(name="Shop")
    await Consent.objects.acreate(user_id=member["id"], client_id=client.pk, scope="openid email")
    path = f"{HOME}/applications"
    assert "E-mail address" in (await page.get(path)).text
    await done(page, await press(page, path, "remove"), "The application was removed.")
    assert not await Consent.objects.aexists()


async def test_times_name_their_zone(page: httpx.AsyncClient, member: Member) -> None:
    """UTC, until the person has said where their clocks are; the script is told the same zone."""
    in_utc = (await page.get(f"{HOME}/sessions")).text
    assert re.search(r'<time datetime="[^"]+\+00:00">[0-9: -]{16} UTC</time>', in_utc)
    await done(page, await press(page, f"{HOME}/name", "change", zoneinfo="Asia/Tokyo"), "Your changes were saved.")
    in_tokyo = (await page.get(f"{HOME}/sessions")).text
    assert re.search(r'<time datetime="[^"]+\+09:00" data-zone="Asia/Tokyo">[0-9: -]{16} JST</time>', in_tokyo)
    moments = [re.search(r'<time datetime="([^"]+)"', text) for text in (in_utc, in_tokyo)]
    utc, tokyo = (datetime.fromisoformat(one[1]) for one in moments if one)
    assert abs((tokyo - utc).total_seconds()) < 3_600


async def test_the_file_of_everything(page: httpx.AsyncClient, member: Member) -> None:
    """A form of the page answers with the file that the API gives."""
    file = await press(page, f"{HOME}/data", "export")
    assert file.headers["content-disposition"].startswith('attachment; filename="account-')
    assert json.loads(file.text)["sections"]["account"][0]["email"] == member["email"]


@pytest.mark.parametrize(("seconds", "asked"), [(RECENT_S - 5, False), (RECENT_S + 1, True)])
async def test_a_late_act_asks_who_it_is(
    page: httpx.AsyncClient, member: Member, monkeypatch: pytest.MonkeyPatch, seconds: int, asked: bool
) -> None:
    """After ten minutes the form asks for the password, which has to be right; within them it does not."""
    later(monkeypatch, seconds)
    path = f"{HOME}/data"
    assert ('name="proof_password"' in (await page.get(path)).text) == asked
    if not asked:
        assert (await press(page, path, "export")).status_code == 200
        return
    assert (await press(page, path, "export")).status_code == 401
    wrong = await press(page, path, "export", proof_password="not the password at all")
    assert (wrong.status_code, 'id="proof_password-problem"' in wrong.text) == (401, True)
    assert "content-disposition" in (await press(page, path, "export", proof_password=PASSWORD)).headers
    assert 'name="proof_password"' not in (await page.get(path)).text


async def test_a_late_act_with_a_password_asks_once(
    page: httpx.AsyncClient, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has no second factor types the password into its field alone; with one, the code is asked for as well."""
    later(monkeypatch, RECENT_S + 1)
    path = f"{HOME}/email"
    assert 'name="proof_password"' not in (await page.get(path)).text
    wrong = await press(page, path, "change", new_email="new@example.com", password="not the password at all")
    assert (wrong.status_code, 'id="password-problem"' in wrong.text) == (401, True)
    assert 'value="new@example.com"' in wrong.text
    right = await press(page, path, "change", new_email="new@example.com", password=PASSWORD)
    await done(page, right, "Open the message that is on its way to the new address.")
    shown = await press(page, f"{HOME}/codes", "start")
    secret = re.search(r'data-copied="([A-Z2-7]+)"', shown.text)
    assert secret
    app = App(secret[1])
    confirmed = await send(page, shown.text, f"{HOME}/codes", "confirm", code=app.code(-1))
    codes = re.findall("<li><code>([^<]+)</code></li>", confirmed.text)
    later(monkeypatch, RECENT_S + 1)
    path = f"{HOME}/password"
    typed = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert 'name="proof_code"' in (await page.get(path)).text
    assert (await press(page, path, "change", **typed)).status_code == 401
    wrong = await press(page, path, "change", **typed, proof_code=app.wrong())
    assert (wrong.status_code, 'id="proof_code-problem"' in wrong.text) == (401, True)
    assert "<details open>" not in wrong.text
    wrong = await press(page, path, "change", **typed, proof_recovery_code="aaaaa-bbbbb")
    assert (wrong.status_code, 'id="proof_recovery_code-problem"' in wrong.text) == (401, True)
    assert ("<details open>" in wrong.text, "aaaaa-bbbbb" in wrong.text) == (True, False)
    await done(page, await press(page, path, "change", **typed, proof_code=app.code()), "Your password was changed.")
    later(monkeypatch, 2 * RECENT_S + 2)
    typed = {"current_password": NEW_PASSWORD, "new_password": PASSWORD}
    by_code = await press(page, path, "change", **typed, proof_recovery_code=codes[0])
    await done(page, by_code, "Your password was changed.")


async def test_signing_out_and_deleting(page: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """Signing out leads to the sign-in page; a deletion says how long it can be taken back, and nobody is signed in."""
    out = await press(page, HOME, "sign_out")
    assert (out.status_code, out.headers["location"]) == (303, SIGN_IN)
    assert (await page.get(HOME)).status_code == 303
    await by_cookie(page, member)
    for days, said in ((0, "at once and for good"), (1, "For 1 day you"), (30, "For 30 days you")):
        settings.IRONAUTH_DELETION_GRACE_DAYS = days
        assert said in (await page.get(f"{HOME}/delete")).text
    assert (await press(page, f"{HOME}/delete", "delete", password="not this one at all")).status_code == 401
    gone = await press(page, f"{HOME}/delete", "delete", password=PASSWORD)
    assert gone.status_code == 200
    assert "for 30 days" in gone.text
    assert (await page.get(HOME)).status_code == 303


async def test_an_act_leaves_the_trail_that_the_api_leaves(page: httpx.AsyncClient, member: Member) -> None:
    """One event, of the person, with the address that the browser came from."""
    await press(page, f"{HOME}/name", "change", name="Ada")
    event = await AuditEvent.objects.order_by("-id").afirst()
    assert event is not None
    assert (event.event, str(event.user_id)) == ("profile_changed", member["id"])


async def test_what_was_done_is_said_to_who_did_it(page: httpx.AsyncClient, member: Member) -> None:
    """A link from elsewhere, or with a word of its own, makes the page say nothing."""
    said = 'class="done"'
    assert said in (await page.get(f"{HOME}/password?done=change")).text
    assert said not in (await page.get(f"{HOME}/password?done=other")).text
    told: dict[str, Any] = {"Sec-Fetch-Site": "cross-site"}
    assert said not in (await page.get(f"{HOME}/password?done=change", headers=told)).text


@pytest.mark.live
async def test_no_value_makes_a_server_error(page: httpx.AsyncClient, member: Member) -> None:
    """Each field of each act of each row, with its mark, broken in every way: a page that says what is wrong."""
    for slug, row in ROWS.items():
        for name, act in row.acts.items():
            path = f"{HOME}/{slug}/{member['id']}" if act.item else f"{HOME}/{slug}"
            mark = forms((await page.get(HOME)).text, "sign_out")[0][1]["form"]
            for value in HOSTILE.values():
                typed = dict.fromkeys((*act.fields, *PROOFS), value) | {"form": mark, "act": name}
                for button in ("", meter.FIELD, "mail_code") if slug == "password" else ("",):
                    answer = await page.post(path, data=typed | ({button: value} if button else {}))
                    assert answer.status_code < 500, (slug, name, button, value[:40])
                    if answer.status_code not in (303, 413):  # sent on; refused before any view sees it
                        assert answer.headers["content-type"].startswith(("text/html", "application/json")), answer.text
