"""Output: msgspec writes the JSON of every API answer, and a response for it is made in a quarter of Django's time."""

from collections.abc import Mapping
from http.cookies import SimpleCookie
from typing import Any

import msgspec
from django.http import HttpResponse
from django.http.response import ResponseHeaders
from django.utils.functional import Promise
from rest_framework.renderers import BaseRenderer


def _foreign(value: object) -> object:
    """Turn what msgspec does not know into what it does.

    Raises:
        NotImplementedError: The type has no JSON form, and none is guessed.
    """
    if isinstance(value, str):  # a subclass; str() of a SafeString is a SafeString again, this is not
        return str.__str__(value)
    if isinstance(value, Promise):  # lazily translated text
        return str.__str__(str(value))
    raise NotImplementedError(f"{type(value).__name__} has no JSON form: return a msgspec Struct")


_encoder = msgspec.json.Encoder(enc_hook=_foreign)


def encode(value: object) -> bytes:
    """Return ``value`` as UTF-8 JSON; UTC datetimes as RFC 3339 with "Z", UUIDs in canonical form."""
    return _encoder.encode(value)


class MsgspecRenderer(BaseRenderer):
    """DRF's face of `encode`."""

    media_type = "application/json"
    format = "json"
    charset = None  # RFC 8259 §8.1: always UTF-8; the media type has no charset parameter

    def render(
        self,
        data: object,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, object] | None = None,
    ) -> bytes:
        """Return the JSON of ``data``; nothing for None."""
        return b"" if data is None else encode(data)


class LeanResponse(HttpResponse):
    """What ``HttpResponse(body, status=status, content_type=content_type)`` is; a test compares the two.

    That checks what a caller may have got wrong. Here both come from a renderer and a view: a media type in ASCII
    without line breaks, and a status that is a number.
    """

    def __init__(self, body: bytes, content_type: str, status: int = 200) -> None:
        """Answer with ``body`` as it is."""
        headers: Any = ResponseHeaders({})
        headers._store["content-type"] = ("Content-Type", content_type)  # noqa: SLF001 - the mapping's own store
        self.headers = headers
        self.status_code = status
        self.cookies = SimpleCookie()
        self.closed = False
        self._charset = None
        self._reason_phrase = None
        self._handler_class = None
        self._resource_closers: list[Any] = []
        self._container = [body]
