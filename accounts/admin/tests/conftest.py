"""What the tests of the admin share: its pages leave events that no answer waits for, and tests read them at once."""

from typing import Any

import pytest
from django.test import Client

from accounts.audit import recording as audit


@pytest.fixture(autouse=True)
def _events_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test client return once the trail has what the request left."""
    request = Client.request

    def written(self: Client, **asked: Any) -> Any:
        response = request(self, **asked)
        assert audit.wait_until_written()
        return response

    monkeypatch.setattr(Client, "request", written)
