"""Output JSON."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from ironauth.infrastructure.api.renderers import MsgspecRenderer, encode


def test_values_have_the_contracts_spelling() -> None:
    """Times in UTC with Z, UUIDs canonical, subclasses of str and lazy texts as texts."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    value = {"at": moment, "id": uuid.UUID(int=1), "safe": mark_safe("<b>"), "lazy": gettext_lazy("lazy"), "n": None}
    assert json.loads(encode(value)) == {
        "at": "2026-01-02T03:04:05.678000Z", "id": "00000000-0000-0000-0000-000000000001", "safe": "<b>",
        "lazy": "lazy", "n": None,
    }  # fmt: skip


def test_nothing_is_guessed() -> None:
    """An object without a JSON form is an error, not its repr."""
    with pytest.raises(NotImplementedError, match="object"):
        encode({"a": object()})


def test_no_data_is_no_body() -> None:
    """None renders to nothing, as DRF's JSONRenderer does."""
    assert MsgspecRenderer().render(None) == b""
