"""The admin's start page: what it counts, who sees it, and what that costs."""

import html
import re
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from accounts.audit import counts as audit_counts
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.conftest import MakeUser
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
START = "/admin/"
DAY_S = 86_400


@pytest.fixture(autouse=True)
def _at_a_quarter_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands at a quarter past an hour, so that it is known which hour an event is in."""
    at = clock.unix() // 3_600 * 3_600 + 900
    monkeypatch.setattr(clock, "_source", lambda: at)


def happened(event: Event, *ago_s: float, outcome: Outcome = Outcome.SUCCESS) -> None:
    """Record an event for each of these moments."""
    for ago in ago_s:
        with clock.shifted(-ago):
            audit.record(event, outcome=outcome)


def shown(client: Client) -> dict[str, Any]:
    """Return the figures on the page by their labels."""
    cache.clear()
    return {figure.label: figure for figure in client.get(START).context["figures"]}


def test_the_header_leads_to_the_page_for_ones_own_security(client: Client, root: User) -> None:
    """Staff add their passkeys and codes there; who is not signed in is offered no such link."""
    link = '<a href="/account/security">'
    assert link in client.get(START).content.decode()
    client.logout()
    assert link not in client.get(START, follow=True).content.decode()


def test_figures_of_the_last_24_hours(client: Client, root: User) -> None:
    """Each event of the day is counted once, in its hour; those a second too old are not; links show the same."""
    happened(Event.SIGN_IN, 0.1, 1, 901, 3_600, DAY_S - 1, DAY_S, DAY_S + 1, 10 * DAY_S)
    happened(Event.SIGN_IN, 5, 6, outcome=Outcome.FAILURE)
    happened(Event.SIGN_IN, 7, outcome=Outcome.REFUSED)
    happened(Event.THROTTLED, 8, outcome=Outcome.REFUSED)
    happened(Event.SIGN_UP, 9, 10, 11)
    happened(Event.SIGN_UP, 9, outcome=Outcome.REFUSED)  # of an address that is taken
    happened(Event.USER_CREATED, 12)
    happened(Event.INVITATION_ACCEPTED, 12, 13, DAY_S + 1)
    happened(Event.ADMIN_SIGN_IN, 13)
    happened(Event.ROLE_GIVEN, 14)
    figures = shown(client)
    assert {label: figure.value for label, figure in figures.items()} == {
        "Sign-ins": "6", "Failed sign-ins": "2", "Throttled": "1", "New users": "3", "Active sessions": "0",
    }  # fmt: skip
    assert [note.text for note in figures["Sign-ins"].notes] == ["1 in the 24 hours before", "+ 1 to this admin"]
    assert [note.text for note in figures["Failed sign-ins"].notes][1:] == [
        "Failure rate 25 %, before 0 %",
        "+ 1 refused by a rule",
    ]
    assert [note.text for note in figures["New users"].notes][1:] == [
        "+ 2 by invitation",
        "+ 1 added by staff or command",
    ]
    titles = [bar.title for bar in figures["Sign-ins"].plot.bars]
    assert len(titles) == 25
    assert [title.rpartition(": ")[2] for title in titles if not title.endswith(": 0")] == ["2", "2", "2"]
    assert all(re.fullmatch(r"\d\d:\d\d to \d\d:\d\d UTC: \d+", title) for title in titles)
    for label, number in (("Sign-ins", 6), ("Failed sign-ins", 2), ("Throttled", 1), ("New users", 3)):
        assert client.get(figures[label].link).context["cl"].result_count == number, label


def test_the_page_is_drawn_without_styles_and_scripts_of_its_own(client: Client, root: User) -> None:
    """A strict CSP shows the plots: attributes of SVG only; those who do not see them are told."""
    happened(Event.SIGN_IN, 5, 5, 5)
    page = client.get(START).content.decode()
    figures = page[page.index('class="figures"') : page.index('id="content-main"')]
    assert figures.count("<svg") == 5
    assert "style=" not in figures
    assert "<script" not in figures
    assert 'role="img" aria-label="By the hour; most from' in figures
    for link in re.findall(r'href="([^"]+)"', figures):
        assert client.get(html.unescape(link)).status_code == 200


def test_nothing_happened_yet(client: Client, root: User, settings: Settings) -> None:
    """A new server shows noughts and empty plots, and says when throttles are off."""
    settings.IRONAUTH_THROTTLE = False
    figures = shown(client)
    assert {figure.value for figure in figures.values()} == {"0"}
    assert figures["Sign-ins"].plot.summary == "By the hour; nothing happened"
    assert {bar.kind for bar in figures["Sign-ins"].plot.bars} == {"none"}
    assert "off" in figures["Throttled"].notes[1].text
    assert [note.text for note in figures["Failed sign-ins"].notes] == ["0 in the 24 hours before"]


@pytest.mark.parametrize(
    ("rights", "labels"),
    [
        ((), set()),
        (("accounts.view_user",), set()),
        (("accounts.view_auditevent",), {"Sign-ins", "Failed sign-ins", "Throttled", "New users"}),
        (("tokens.view_session",), {"Active sessions"}),
    ],
)
def test_figures_are_for_those_who_may_see_what_they_count(
    client: Client, make_user: MakeUser, rights: tuple[str, ...], labels: set[str]
) -> None:
    """The right over the trail shows its figures, that over sessions theirs; without either the page has none."""
    client.force_login(make_user(*rights, is_staff=True))
    assert shown(client).keys() == labels
    assert (b'class="figures"' in client.get(START).content) is bool(labels)


def test_a_look_is_good_for_ten_seconds(root: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Then the hours at the ends are counted anew, and those that are over and settled are not."""
    happened(Event.SIGN_IN, 10, 7_200)

    def sign_ins() -> int:
        return sum(hour.number(Event.SIGN_IN, Outcome.SUCCESS) for hour in audit_counts.period(24).now)

    with django_assert_num_queries(1):
        assert sign_ins() == 2
    happened(Event.SIGN_IN, 1, 7_200)
    with clock.shifted(audit_counts.FRESH_S - 1), django_assert_num_queries(0):
        assert sign_ins() == 2
    with clock.shifted(audit_counts.FRESH_S), CaptureQueriesContext(connection) as captured:
        assert sign_ins() == 3  # what is said to have happened two hours ago is not looked for any more
    (query,) = captured.captured_queries
    assert query["sql"].count("COUNT(") == 3 * 4  # outcomes, for the hours at the ends of both days


@pytest.mark.parametrize(("hours", "bars", "now", "before"), [(24, 25, 2, 1), (168, 29, 4, 1), (720, 31, 6, 1)])
def test_periods_and_those_before(client: Client, root: User, hours: int, bars: int, now: int, before: int) -> None:
    """Each counts what happened in it to the second, and in as long a time before; the links show the same."""
    ends_s = [hours * 3_600 for hours in (24, 168, 720)]
    happened(Event.SIGN_IN, 60, *(end - 1 for end in ends_s), *(end + 1 for end in ends_s), 2 * hours * 3_600 + 1)
    cache.clear()
    page = client.get(START, {"hours": hours})
    (figure,) = [one for one in page.context["figures"] if one.label == "Sign-ins"]
    assert len(figure.plot.bars) == bars
    assert sum(int(bar.title.rpartition(": ")[2]) for bar in figure.plot.bars) == int(figure.value) == now
    assert figure.notes[0].text.startswith(f"{before} in the ")
    for link, number in ((figure.link, now), (figure.notes[0].link, before)):
        assert client.get(link).context["cl"].result_count == number, link
    assert [chosen for _, _, chosen in page.context["periods"]] == [hours == one for one in audit_counts.PERIODS]


@pytest.mark.parametrize("asked", ["", "0", "25", "x", "24 ", "9" * 5_000])
def test_another_period_is_a_day(client: Client, root: User, asked: str) -> None:
    """What is not offered is shown as 24 hours."""
    assert "Last 24 hours" in client.get(START, {"hours": asked}).content.decode()


def test_the_failure_rate(client: Client, root: User) -> None:
    """Of tries that were right or wrong, now and in the day before; what a rule refused was neither."""
    happened(Event.SIGN_IN, 1, 2, 3, DAY_S + 1)
    happened(Event.SIGN_IN, 4, DAY_S + 2, outcome=Outcome.FAILURE)
    happened(Event.SIGN_IN, 5, outcome=Outcome.REFUSED)
    assert "Failure rate 25 %, before 50 %" in [note.text for note in shown(client)["Failed sign-ins"].notes]


@pytest.mark.parametrize(("early_s", "counted"), [(1, True), (0, False)])
def test_hours_are_kept_once_nothing_arrives_any_more(root: User, early_s: int, counted: bool) -> None:
    """An event that is late is found while its hour was last counted before it was settled, and not after."""
    settled_s = 2_700 + audit_counts.SETTLED_S  # from a quarter past to the end of the hour, and so long after
    with clock.shifted(settled_s - early_s):
        audit_counts.period(24)
    happened(Event.SIGN_UP, 1)  # written only now
    with clock.shifted(settled_s + audit_counts.FRESH_S):
        found = sum(hour.number(Event.SIGN_UP, Outcome.SUCCESS) for hour in audit_counts.period(24).now)
    assert found == int(counted)
