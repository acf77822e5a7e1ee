"""JSON from strangers has one meaning, and a bounded depth."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironauth.infrastructure.core.strict_json import InvalidJson, loads

DEEPEST = 32  # levels; written here again, so that a change of the bound is seen

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner)
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_reads_what_was_written(value: Any) -> None:
    """Every value without doubles is read as it was written, from bytes and from text."""
    text = json.dumps(value)
    assert loads(text) == loads(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a":1,"b":2,"a":3}',
        '{"a":1,"\\u0061":2}',
        '{"a":{"b":1,"b":2}}',
        '[{"a":1},{"b":[{"c":1,"c":2}]}]',
        '{"a":{"b":1},"a":{}}',
        '{"":1,"":2}',
        '{"a":"x:y","a":1}',
        '{"a" : 1 , "a" : 2}',
    ],
)
def test_refuses_a_member_that_comes_twice(text: str) -> None:
    """An object with a member twice is refused, however deep it is and however the name is spelt."""
    for data in (text, text.encode()):
        with pytest.raises(InvalidJson, match="member twice"):
            loads(data)


@pytest.mark.parametrize(
    "text", ['{"a":1,"A":2}', '[{"a":1},{"a":2}]', '{"a":{"a":1}}', '{"a:":"b:c","d":":"}', '{"a":1,"a ":2}']
)
def test_takes_the_same_name_in_two_objects(text: str) -> None:
    """Names that differ, or are members of different objects, are no doubles; a colon in a string is none either."""
    assert loads(text) == json.loads(text)


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_depth_is_bounded(begin: str, end: str) -> None:
    """As many levels as the bound are read, one more is refused, and 100,000 as well."""
    levels = begin.count("[") + begin.count("{")

    def nested(depth: int) -> str:
        times = depth // levels
        return begin * times + "1" + end * times

    assert loads(nested(DEEPEST)) is not None
    with pytest.raises(InvalidJson, match="nested deeper than 32"):
        loads(nested(DEEPEST + levels))
    with pytest.raises(InvalidJson):
        loads(nested(100_000))
    with pytest.raises(InvalidJson, match="nested deeper than 2 "):
        loads("[[[1]]]", max_depth=2)
    assert loads("[[1],[2]]", max_depth=2) == [[1], [2]]


def test_a_wide_value_is_not_deep() -> None:
    """Many lists beside one another do not count as depth."""
    assert loads("[" + ",".join(["[]"] * 1_000) + "]") == [[]] * 1_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a":1}{"b":2}',
        b'{"a":NaN}',
        b"[1e400]",
        b"[" + b"1" * 5_000 + b"]",
        b'["\\ud800"]',
        b'["\xff"]',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"{'a':1}",
        b'["\x00"]',
        '["\ud800"]',
    ],
)
def test_refuses_what_is_not_json(data: bytes | str) -> None:
    """Bad syntax, other encodings, a byte order mark, NaN, numbers out of range and lone surrogates are refused."""
    with pytest.raises(InvalidJson):
        loads(data)
