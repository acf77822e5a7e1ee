"""Calls of the API by a page, in this process, with the cookies of the browser that asked for the page.

A page changes an account by the views of ``/api/v1/access/`` alone: rules, throttles and the audit trail are theirs.
This application needs to import nothing of those who provide them.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from http.cookies import SimpleCookie
from io import BytesIO
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlencode

import msgspec
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import resolve, reverse

from ironauth.infrastructure.http.fast_request import LeanRequest

#: Fields of the page's request that are not the call's: what describes its body, and who else might be meant.
_NOT_PASSED_ON: Final = frozenset({
    b"accept", b"authorization", b"content-length", b"content-type", b"cookie", b"dpop", b"origin", b"sec-fetch-site",
    b"transfer-encoding",
})  # fmt: skip
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
#: What the API calls points in time.
_TIMES: Final = re.compile(r"\w+_at|since")


class Answer(NamedTuple):
    """What the API answered: ``body`` is its JSON, with points in time; None where there is none."""

    status: int
    body: Any
    response: HttpResponse

    @property
    def is_good(self) -> bool:
        """Whether what was asked is done."""
        return self.status < 400  # noqa: PLR2004 - RFC 9110 §15.5


class ApiCalls:
    """Calls the API for one request of a browser, and keeps the cookies that the browser is given."""

    def __init__(self, request: HttpRequest) -> None:
        """Call for ``request``, whose origin the caller has judged: the calls count as this site's own."""
        self._request = cast("ASGIRequest", request)
        self._given: SimpleCookie = SimpleCookie()

    async def call(self, method: str, name: str, body: Mapping[str, Any] | None = None, **path: Any) -> Answer:
        """Call a view of ``/api/v1/access/``.

        Args:
            method: An HTTP method.
            name: The name of its URL.
            body: The members of its JSON object.
            path: The parameters of its path.

        Returns:
            What it answered; its errors, too.
        """
        content = b"" if method == "GET" else msgspec.json.encode(dict(body or {}))
        return await self._answered(method, reverse(f"access:{name}", kwargs=path), _JSON, content)

    async def send_form(self, name: str, fields: Mapping[str, str]) -> Answer:
        """Send a form to a page of ours, by the name of its URL."""
        return await self._answered("POST", reverse(name), _FORM, urlencode(fields).encode())

    def take_over(self) -> None:
        """Let the page's own request have the cookies that were given so far."""
        request = self._request
        request.META["HTTP_COOKIE"] = self._cookies()
        vars(request).pop("COOKIES", None)

    def give_cookies(self, response: HttpResponseBase) -> None:
        """Give the browser what the API gave."""
        for name, cookie in self._given.items():
            response.cookies[name] = cookie

    async def _answered(self, method: str, path: str, media_type: str, content: bytes) -> Answer:
        scope = self._request.scope
        headers = [(name, value) for name, value in scope["headers"] if name not in _NOT_PASSED_ON]
        headers += [
            (b"accept", _JSON.encode()),
            (b"cookie", self._cookies().encode("latin1")),
            (b"sec-fetch-site", b"same-origin"),
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(content)).encode()),
        ]
        told = {"method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        request = LeanRequest({**scope, **told}, BytesIO(content))
        match = resolve(request.path_info)
        request.resolver_match = match
        response: HttpResponse = await match.func(request, *match.args, **match.kwargs)
        for name, cookie in response.cookies.items():
            self._given[name] = cookie
        return Answer(response.status_code, _json_of(response), response)

    def _cookies(self) -> str:
        """Return the Cookie field as the browser would send it by now."""
        held = {**self._request.COOKIES, **{name: cookie.value for name, cookie in self._given.items()}}
        return "; ".join(f"{name}={value}" for name, value in held.items() if value)


def _json_of(response: HttpResponse) -> Any:
    if not response.content or "json" not in response.headers.get("Content-Type", ""):
        return None
    return _with_times(msgspec.json.decode(response.content))


def _with_times(value: Any) -> Any:
    """Return the JSON value with points in time where the API has their text."""
    if isinstance(value, list):
        return [_with_times(one) for one in value]
    if isinstance(value, dict):
        return {
            name: datetime.fromisoformat(one) if isinstance(one, str) and _TIMES.fullmatch(name) else _with_times(one)
            for name, one in value.items()
        }
    return value
