"""Input: JSON and forms, parsed on the event loop from a body the guard has already bounded, and validated."""

import copy
from collections.abc import Hashable, Mapping
from functools import cache
from typing import IO, Any, cast
from urllib.parse import parse_qsl

from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.http import parse_header_parameters
from rest_framework import parsers
from rest_framework.exceptions import ErrorDetail, ParseError, UnsupportedMediaType, ValidationError
from rest_framework.serializers import BaseSerializer, Serializer

from ironauth.infrastructure.core import strict_json

#: ASCII is a subset of UTF-8; anything else is refused, because Python also "decodes" base64, rot13 and idna.
_UTF8_NAMES = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def _require_utf8(media_type: str | None) -> None:
    """Raise `UnsupportedMediaType` (415) when ``media_type`` names a charset that is not UTF-8."""
    if media_type is None or "charset" not in media_type.lower():
        return
    charset = parse_header_parameters(media_type)[1].get("charset", "utf-8")
    if charset.lower() not in _UTF8_NAMES:
        raise UnsupportedMediaType(media_type, detail="The body must be UTF-8: leave the charset parameter out.")


class JSONParser(parsers.JSONParser):
    """RFC 8259 JSON objects, strictly.

    A subclass of DRF's parser so that DRF keeps the body readable.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the object in ``stream``.

        Raises:
            ParseError: (400) it is not one JSON object in UTF-8 (see ``strict_json``): bad syntax, a byte order mark,
                NaN, numbers out of range, lone surrogates, a member twice, nesting deeper than 32 levels.
            UnsupportedMediaType: (415) the charset is another one.
        """
        _require_utf8(media_type)
        try:
            data = strict_json.loads(stream.read())
        except strict_json.InvalidJson as error:
            raise ParseError(f"The body {error}") from error
        if not isinstance(data, dict):
            raise ParseError('The body must be a JSON object, for example {"name": "value"}.')
        return data


class FormParser(parsers.BaseParser):
    """``application/x-www-form-urlencoded`` in UTF-8, as an HTML form sends it."""

    media_type = "application/x-www-form-urlencoded"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> QueryDict:
        """Return the fields; more than DATA_UPLOAD_MAX_NUMBER_FIELDS of them is Django's `TooManyFieldsSent`."""
        _require_utf8(media_type)
        try:
            text = stream.read().decode()
        except UnicodeDecodeError as error:
            raise ParseError("The form is not UTF-8.") from error
        if text.lstrip().startswith(("{", "[")):  # no form begins so (%7B, %5B); curl -d calls any body a form
            raise ParseError("The body looks like JSON, not a form: send it with Content-Type: application/json.")
        return form_of(text)


def form_of(text: str) -> QueryDict:
    """Return what ``QueryDict(text)`` is, made in half the time: that asks of every text whether it is bytes.

    Raises:
        TooManyFieldsSent: It has more fields than DATA_UPLOAD_MAX_NUMBER_FIELDS.
    """
    fields: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(
            text, keep_blank_values=True, max_num_fields=settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
        ):
            fields.setdefault(name, []).append(value)
    except ValueError as error:
        raise TooManyFieldsSent("The form has too many fields.") from error
    form = QueryDict.__new__(QueryDict)
    MultiValueDict.__init__(form, fields)
    form.encoding, form._mutable = "utf-8", False  # noqa: SLF001 - as QueryDict's own
    return form


# DRF copies every declared field for every request, because a serializer may change its own. Measured: a body of
# few fields 63 µs with fields of its own, 21 with these; one of more 175 and 39.
def validated(serializer: type[BaseSerializer[Any]], data: Any, *, partial: bool = False) -> dict[str, Any]:
    """Return ``data`` as validated; unknown fields are ignored.

    The serializer's fields must keep nothing of a request: they see no context, and all requests share them.

    Args:
        serializer: The class; one instance of it serves all requests.
        data: The parsed body or query.
        partial: Whether fields that are required may be absent.

    Raises:
        ValidationError: DRF's; it names every bad field.
    """
    checked = copy.copy(_prototype(cast("Hashable", serializer), partial))
    checked.initial_data = data
    checked.is_valid(raise_exception=True)
    values: dict[str, Any] = checked.validated_data
    return values


class NoParameters(Serializer[Any]):
    """The query of a list that is not filtered."""


def validated_query(serializer: type[BaseSerializer[Any]], query: QueryDict) -> dict[str, Any]:
    """Return the query of a list as validated; a parameter it does not have would filter nothing, so it is refused.

    Args:
        serializer: The parameters of the list.
        query: What was asked.

    Raises:
        ValidationError: DRF's (400), naming every bad and every unknown parameter.
    """
    names = _prototype(cast("Hashable", serializer), False).fields
    known = f"it has {', '.join(sorted(names))}" if names else "it has none"
    unknown: dict[str, Any] = {
        name: [ErrorDetail(f"This list has no such parameter: {known}.", code="unknown_parameter")]
        for name in query
        if name not in names
    }
    try:
        values = validated(serializer, query.dict())
    except ValidationError as refused:
        if isinstance(refused.detail, dict):
            raise ValidationError({**refused.detail, **unknown}) from refused
        raise
    if unknown:
        raise ValidationError(unknown)
    return values


@cache  # one for each serializer of the project, or two
def _prototype(serializer: Hashable, partial: bool) -> Any:
    prototype: Any = cast("type[BaseSerializer[Any]]", serializer)(partial=partial)
    prototype.fields  # noqa: B018 - made now, and kept by the object
    return prototype
