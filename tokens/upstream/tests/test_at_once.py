"""What happens to one identity at the same moment in four processes: one row at the end, and no fault of the server."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from html import unescape
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from accounts.federation.models import Identity, UpstreamProvider
from accounts.users.models import User
from conftest import PASSWORD, ServeProcess, bearer
from tokens.sessions.models import Session
from tokens.tests.browser import SIGNIN
from tokens.upstream.tests.provider import MeetingProvider, served
from tokens.upstream.tests.test_identities import IDENTITIES
from tokens.upstream.tests.walk import UPSTREAM, stored

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("signing_key"),
    pytest.mark.live,
]

WORKERS: Final = 4
ROUNDS: Final = 4
MOST_TRIES: Final = 5 * ROUNDS
type Browsers = Callable[[], httpx.Client]
#: As a browser says of a way that another site has begun.
FROM_THERE: Final = {"Sec-Fetch-Site": "cross-site"}


@pytest.fixture
def provider(transactional_db: None) -> Iterator[MeetingProvider]:
    """A provider that is known here as *acme*."""
    with served(MeetingProvider) as found:
        stored("acme", found.issuer)
        yield found


@pytest.fixture
def browsers(provider: MeetingProvider, serve_process: ServeProcess) -> Iterator[Browsers]:
    """A source of browsers at a server of four processes."""
    server = serve_process(
        "--workers",
        str(WORKERS),
        DEBUG="1",
        IRONAUTH_UPSTREAM_NETWORKS="127.0.0.0/8",
        IRONAUTH_EMAIL_VERIFICATION="off",
    )
    with ExitStack() as opened:
        yield lambda: opened.enter_context(httpx.Client(base_url=server, timeout=30))


def parameters(url: str) -> dict[str, str]:
    """Return what the provider is asked."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def sent(browser: httpx.Client) -> dict[str, str]:
    """Press the provider's button; return what the provider is asked."""
    field = re.search(r'name="request" value="([^"]+)"', browser.get("/account/signin").text)
    assert field is not None
    leads = browser.post(UPSTREAM, data={"request": unescape(field[1]), "provider": "acme"})
    link = re.search(r'<a href="([^"]+)">Continue', leads.text)
    assert link is not None, leads.text
    return parameters(unescape(link[1]))


def asked_to_connect(browser: httpx.Client, pair: dict[str, Any]) -> dict[str, str]:
    """Ask to connect an identity; return what the provider is asked."""
    answer = browser.post(IDENTITIES, json={"provider": "acme"}, headers=bearer(pair))
    assert answer.status_code == 200, answer.text
    return parameters(answer.json()["url"])


def signed_in(browser: httpx.Client, email: str) -> dict[str, Any]:
    """Make an account and sign in to it."""
    User.objects.create_user(email, PASSWORD)
    answer = browser.post(SIGNIN, json={"email": email, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    pair: dict[str, Any] = answer.json()
    return pair


def back(browser: httpx.Client, asked: dict[str, str], code: str, issuer: str) -> httpx.Response:
    """Come back from the provider."""
    params = {"code": code, "state": asked["state"], "iss": issuer}
    return browser.get(f"{UPSTREAM}/acme", params=params, headers=FROM_THERE)


def at_once(provider: MeetingProvider, *acts: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """Do all of it at the same moment: each has a thread, and meets the others at the provider.

    Returns:
        The answers; none where this machine was too busy for one (503), which says nothing about a race.
    """
    provider.meeting = threading.Barrier(len(acts))
    with ThreadPoolExecutor(len(acts)) as threads:
        answers = [one.result() for one in [threads.submit(act) for act in acts]]
    provider.meeting = None
    assert all(answer.status_code in (*range(500), 503) for answer in answers), [answer.text for answer in answers]
    return [] if any(answer.status_code == 503 for answer in answers) else answers


def is_in(answer: httpx.Response) -> bool:
    """Tell whether a sign-in led to the account's page, with a session."""
    return answer.status_code == 303 and "access_token" in answer.cookies


def first_sign_ins(provider: MeetingProvider, browsers: Browsers, number: int) -> bool:
    """Four browsers of one new person: one account, one identity, and all get in."""
    known = {"sub": f"person {number}", "email": f"ann{number}@example.com"}

    def comes_back() -> Callable[[], httpx.Response]:
        browser = browsers()
        asked = sent(browser)
        return lambda: back(browser, asked, provider.code(asked, **known), provider.issuer)

    answers = at_once(provider, *(comes_back() for _ in range(WORKERS)))
    assert all(map(is_in, answers)), [answer.text for answer in answers]
    assert User.objects.get().pk == Identity.objects.get().user_id
    return bool(answers)


def one_identity(provider: MeetingProvider, browsers: Browsers, number: int) -> bool:
    """Four people connect the same identity: one has it, and the others are told that it is another account's."""

    def connects(person: int) -> Callable[[], httpx.Response]:
        browser = browsers()
        asked = asked_to_connect(browser, signed_in(browser, f"p{person}-{number}@example.com"))
        return lambda: back(browser, asked, provider.code(asked, sub="ann"), provider.issuer)

    answers = at_once(provider, *(connects(person) for person in range(WORKERS)))
    if answers:
        assert Counter(answer.status_code for answer in answers) == {303: 1, 409: WORKERS - 1}
        winner = [answer.status_code for answer in answers].index(303)
        assert Identity.objects.get().user.email == f"p{winner}-{number}@example.com"
    return bool(answers)


def several_identities(provider: MeetingProvider, browsers: Browsers, number: int) -> bool:
    """One person connects four of the same provider in one session: one is theirs, the others are refused."""
    browser = browsers()
    pair = signed_in(browser, f"ann{number}@example.com")

    def connects(identity: int) -> Callable[[], httpx.Response]:
        asked = asked_to_connect(browser, pair)
        return lambda: back(browser, asked, provider.code(asked, sub=f"person {identity}"), provider.issuer)

    answers = at_once(provider, *(connects(identity) for identity in range(WORKERS)))
    if answers:
        assert Counter(answer.status_code for answer in answers) == {303: 1, 409: WORKERS - 1}
        winner = [answer.status_code for answer in answers].index(303)
        assert Identity.objects.get().subject == f"person {winner}"
    return bool(answers)


def removal(provider: MeetingProvider, browsers: Browsers, number: int) -> bool:
    """Three sign in while it is removed: who comes later is asked to sign in here. It is gone, the account is not.

    Who was faster is signed out again: no session that began with it lives.
    """
    owner, known = browsers(), {"sub": "ann", "email": f"ann{number}@example.com"}
    pair = signed_in(owner, known["email"])
    identity = Identity.objects.create(
        user=User.objects.get(), provider=UpstreamProvider.objects.get(), issuer=provider.issuer, subject="ann"
    )

    def comes_back() -> Callable[[], httpx.Response]:
        browser = browsers()
        asked = sent(browser)
        return lambda: back(browser, asked, provider.code(asked, **known), provider.issuer)

    def removed() -> httpx.Response:
        provider.meet()
        return owner.delete(f"{IDENTITIES}/{identity.pk}", headers=bearer(pair))

    answers = at_once(provider, *(comes_back() for _ in range(WORKERS - 1)), removed)
    if answers:
        *sign_ins, gone = answers
        assert gone.status_code == 204
        asked = ("Sign in to your account here once", "The account was changed while you were signing in")
        assert all(is_in(one) or any(words in one.text for words in asked) for one in sign_ins)
        assert not Session.objects.filter(amr="fed", revoked_at=None).exists()
        assert not Identity.objects.exists()
        assert User.objects.get().email == known["email"]
    return bool(answers)


def one_state(provider: MeetingProvider, browsers: Browsers, number: int) -> bool:
    """One browser brings the same answer four times: it signs in once, and the other three have expired."""
    browser = browsers()
    asked = sent(browser)
    code = provider.code(asked, sub=f"person {number}", email=f"ann{number}@example.com")
    cookies, base = dict(browser.cookies), browser.base_url

    def comes_back() -> httpx.Response:
        with httpx.Client(base_url=base, cookies=cookies, timeout=30) as alike:
            return back(alike, asked, code, provider.issuer)

    with ThreadPoolExecutor(WORKERS) as threads:
        answers = [one.result() for one in [threads.submit(comes_back) for _ in range(WORKERS)]]
    if any(answer.status_code == 503 for answer in answers):
        return False
    assert sorted(answer.status_code for answer in answers) == [303, *[400] * (WORKERS - 1)]
    assert all(is_in(one) or "This page has expired" in one.text for one in answers)
    assert Session.objects.filter(amr="fed").count() == 1
    return True


def test_at_the_same_moment(provider: MeetingProvider, browsers: Browsers) -> None:
    """In whatever order they come, one row is there at the end, and each browser is told what became of its request.

    One test, because four processes take their time to start.
    """
    for race in (one_state, first_sign_ins, one_identity, several_identities, removal):
        judged = 0
        for number in range(MOST_TRIES):
            judged += race(provider, browsers, number)
            User.objects.all().delete()
            if judged == ROUNDS:
                break
        assert judged == ROUNDS, race.__doc__
