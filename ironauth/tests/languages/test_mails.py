"""No message shows anybody a word that is not in their language, whatever has happened."""

from itertools import product
from typing import Any, Final

import pytest
from pytest_django import Settings

from accounts.outbox import queue as outbox
from accounts.outbox import rendering
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import UNKNOWN_ADDRESS, Kind
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from ironauth.infrastructure.core import clock, user_agents
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.tests.languages import marked
from ironauth.tests.languages.marked import READER, Readings

_AGENTS: Final = ("Mozilla/5.0 (Windows NT 10.0) Firefox/140.0", "Mozilla/5.0 (X11; Linux)", "curl/8.9", "Mozilla/5.0")
_MOMENT: Final = "2026-11-28T14:05:00+00:00"


def facts_of(kind: Kind) -> list[dict[str, Any]]:
    """Return what may be told in a message of this kind."""
    if kind is Kind.NEW_DEVICE:
        known = [dict(zip(("browser", "system"), user_agents.parts(agent), strict=True)) for agent in _AGENTS]
        return [
            {"seen_at": _MOMENT, "address": address, "device": "English", "time": "English", **device}
            for device, address in product(known, ("192.0.2.7", UNKNOWN_ADDRESS))
        ]
    if kind is Kind.ACCOUNT_DELETION:
        flags = [
            dict(zip(("disowned", "unproved", "has_factors"), one, strict=True))
            for one in product((True, False), repeat=3)
        ]
        return [{"due_at": _MOMENT, "made_at": _MOMENT, "due": "English", "made": "English", **one} for one in flags]
    return [{"provider": "Акме", "left": left, "factors_removed": left} for left in (0, 1, 2)]


@pytest.mark.parametrize("with_code", [False, True])
@pytest.mark.parametrize("kind", list(Kind))
def test_every_message_is_in_the_readers_language(kind: Kind, with_code: bool, settings: Settings) -> None:
    """Subject, text and HTML part: no word outside of the translated texts."""
    settings.IRONAUTH_BRAND_NAME = "Знак"
    settings.IRONAUTH_SUPPORT_URL = settings.IRONAUTH_TERMS_URL = settings.IRONAUTH_PRIVACY_URL = "https://example.com/"
    row = EmailToken(purpose=Purpose.RESET_PASSWORD, nonce=b"n" * 32, master_key_id=newest_master_key_id())
    row.code_tries = 0 if with_code or kind in (Kind.SIGN_IN_CODE, Kind.CONFIRMATION_CODE) else None
    with marked.spoken() as language:
        readings = Readings(language)
        readings.data |= {"Firefox", "Windows", "Linux"}
        for facts in facts_of(kind):
            claimed = outbox.Claimed(
                new_id(), kind, "m@example.com", 1, clock.now(), {**facts, "language": READER}, row
            )
            message = rendering.render(claimed)
            token = email_tokens.text(row)
            readings.text("subject", str(message.subject))
            readings.text("text", str(message.body), token)
            readings.page("HTML", str(message.alternatives[0][0]), token)
    readings.done(3)
