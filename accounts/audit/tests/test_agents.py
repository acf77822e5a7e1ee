"""What a browser calls itself is kept whole, in fewer bytes."""

import pytest
from django.core import checks
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from accounts.audit import queries
from accounts.audit import recording as audit
from accounts.audit.agents import PHRASES, shortened, whole
from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.http import client_context

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5"
    " Mobile/15E148 Safari/604.1"
)
_PARTS = st.sampled_from([*PHRASES.values(), "Mozilla/5.0 (", ".0", " ", "x"])


@pytest.mark.parametrize(("text", "bytes_at_most"), [(CHROME, 10), (FIREFOX, 22), (IPHONE, 42)])
def test_usual_ones_are_short(text: str, bytes_at_most: int) -> None:
    """A third or less of what they were."""
    assert len(shortened(text).encode()) <= bytes_at_most
    assert whole(shortened(text)) == text


@given(st.lists(_PARTS).map("".join) | st.text().map(lambda text: client_context.printable(text, 255)))
def test_every_text_comes_back(text: str) -> None:
    """Whatever the order of phrases, and none is longer than it was."""
    assert whole(shortened(text)) == text
    assert len(shortened(text)) <= len(text)


@pytest.mark.parametrize("text", ["", "curl/8.5.0", "Mozilla/4.0 (compatible)", "Mozilla/5.0 (\x02evil"])
def test_others_stay_as_they_are(text: str) -> None:
    """Those of programs, and whatever has a control character; rows of before are read as they are."""
    assert shortened(text) == text
    assert whole(text) == text


def test_what_a_phrase_stands_for_stays() -> None:
    """Rows of years are read by them: this list may grow, and nothing of it may change."""
    assert whole("\x01\x0e\x02142\x14\x03") == CHROME
    assert whole("\x01\x10; rv:140.0\x04140.0") == FIREFOX
    assert whole("\x01\x1218_5\x13\x05Version/18.5 Mobile/15E148\x06") == IPHONE
    assert whole("\x01\x0f\x05Version/18.5\x07").endswith("Version/18.5 Safari/605.1.15")
    assert (
        whole("\x01\x11\x02142\x14") == CHROME.replace(PHRASES["\x0e"], "Linux; Android 10; K")[: -len(PHRASES["\x03"])]
    )
    assert len(PHRASES) == 13
    assert not set(PHRASES) & set("\t\n\v\f\r\x01")


@pytest.mark.django_db
@pytest.mark.storage
def test_the_table_has_the_short_text_and_everybody_reads_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the compiled insert, by many at once, in pages and exports."""
    monkeypatch.setattr(client_context, "current", lambda: client_context.ClientContext(user_agent=CHROME))
    audit.record(audit.Event.SIGN_IN)
    audit.record_each(audit.Event.SIGN_OUT, [(new_id(), None)], actor_id=None)
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT user_agent FROM accounts_auditevent")
        assert [text for (text,) in cursor.fetchall()] == ["\x01\x0e\x02142\x14\x03"]
    assert {event.user_agent for event in AuditEvent.objects.all()} == {CHROME}
    assert {row.user_agent for row in queries.page({"page_size": 50}).rows} == {CHROME}
    assert {row.user_agent for row in queries.exported(AuditEvent.objects.all())} == {CHROME}
    assert AuditEvent.objects.filter(user_agent=CHROME).count() == 2


def test_migrations_see_a_plain_text() -> None:
    """No table is rewritten for it."""
    field = AuditEvent._meta.get_field("user_agent")
    assert field.deconstruct()[1] == "django.db.models.CharField"
    assert not [error for error in field.check() if error.level >= checks.ERROR]
