"""Output: msgspec writes the JSON of every API answer."""

from collections.abc import Mapping

import msgspec
from django.utils.functional import Promise
from rest_framework.renderers import BaseRenderer


def _foreign(value: object) -> object:
    """Turn what msgspec does not know into what it does.

    Errors: ``NotImplementedError`` for a type with no JSON form, so that none is ever guessed.
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
