"""Serializers whose fields are made once validate every request as if they were new."""

from typing import Any

import pytest
from rest_framework import serializers

from ironauth.infrastructure.api.parsers import validated


class Inner(serializers.Serializer[Any]):
    """A nested body."""

    number = serializers.IntegerField(min_value=1)


class Body(serializers.Serializer[Any]):
    """A body with every kind of field that could keep something."""

    name = serializers.CharField(max_length=5)
    tags = serializers.ListField(child=serializers.CharField(max_length=3), required=False, default=list)
    inner = Inner(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Say what was sent beside the fields."""
        return attrs | {"sent": sorted(self.initial_data)}


GOOD = {"name": "a", "tags": ["x"], "inner": {"number": 3}, "unknown": 1}


def test_nothing_of_a_request_reaches_the_next() -> None:
    """Values, defaults and errors are those of the data at hand, whatever came before."""
    expected = {"name": "a", "tags": ["x"], "inner": {"number": 3}, "sent": ["inner", "name", "tags", "unknown"]}
    for _ in range(2):
        first = validated(Body, GOOD)
        assert first == expected
        first["tags"].append("y")
        assert validated(Body, {"name": "b"}) == {"name": "b", "tags": [], "sent": ["name"]}
        with pytest.raises(serializers.ValidationError) as refused:
            validated(Body, {"name": "too long", "tags": ["x", "long"], "inner": {"number": 0}})
        assert set(refused.value.detail) == {"inner", "name", "tags"}


def test_partial_is_the_call_s() -> None:
    """What may be absent is decided by each call, inside nested bodies too."""
    assert validated(Body, {"inner": {}}, partial=True) == {"inner": {}, "sent": ["inner"]}
    with pytest.raises(serializers.ValidationError) as refused:
        validated(Body, {"inner": {}})
    assert set(refused.value.detail) == {"inner", "name"}
