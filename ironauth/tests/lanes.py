"""What the hot lane answers, beside what the view would."""

from collections.abc import Awaitable, Callable

import httpx
import pytest
from django.test import override_settings

from ironauth import asgi
from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send


@pytest.fixture
def api_lane(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that reached the API lane."""
    seen: list[str] = []
    original = asgi._lanes.api

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        await original(scope, receive, send)

    monkeypatch.setattr(asgi._lanes, "api", watched)
    return seen


def shown(answer: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Return all of an answer but what names its request."""
    request_id = answer.headers["x-request-id"]
    fields = [field for field in answer.headers.multi_items() if field[0] != "x-request-id"]
    return answer.status_code, answer.content.replace(request_id.encode(), b""), fields


async def as_the_view(ask: Callable[[], Awaitable[httpx.Response]], *, times: int = 3) -> httpx.Response:
    """Ask so often that the answer is repeated; all answers are those that the view gives."""
    answers = [await ask() for _ in range(times)]
    with override_settings(IRONAUTH_HOT_LANE=False):
        of_the_view = await ask()
    assert [shown(answer) for answer in answers] == [shown(of_the_view)] * times
    return answers[-1]
