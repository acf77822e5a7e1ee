"""Types of authorization details: what may be declared, what an object of one may be, and how people read it."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from accounts.audit.models import AuditEvent
from tokens.details import lists, members, rules, words
from tokens.details.lists import InvalidDetails
from tokens.details.models import DetailType
from tokens.details.words import Piece

PAYMENT: dict[str, Any] = {
    "amount": {"kind": "object", "required": True, "members": {
        "value": {"kind": "text", "required": True}, "currency": {"kind": "text", "required": True, "values": ["EUR"]},
    }},
    "creditor": {"kind": "text", "required": True},
    "urgent": {"kind": "flag"},
    "times": {"kind": "integer"},
    "accounts": {"kind": "texts", "values": ["giro", "savings"]},
    "note": {"kind": "object", "members": {"text": {"kind": "text"}}},
}  # fmt: skip
SENTENCE = "Pay {amount.value} {amount.currency} to {creditor}"
GOOD: dict[str, Any] = {"amount": {"value": "12.50", "currency": "EUR"}, "creditor": "Zoé & Söhne"}


def judged(**fields: Any) -> list[tuple[str, str]]:
    """Return what is wrong with a type, and where."""
    given = {"identifier": "payment", "words": SENTENCE, "members": PAYMENT, **fields}
    return [(one.field, one.code) for one in rules.problems_of(DetailType(**given))]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({}, []),
        ({"members": {}, "words": "Open every door"}, []),
        ({"identifier": "https://bank.example/payment"}, []),
        ({"identifier": "x" * 100}, []),
        ({"identifier": "x" * 101}, ["identifier"]),
        ({"identifier": ""}, ["identifier"]),
        ({"identifier": "pay ment"}, ["identifier"]),
        ({"identifier": 'a"b'}, ["identifier"]),
        ({"identifier": "zahlung-ä"}, ["identifier"]),
        ({"words": ""}, ["words"]),
        ({"words": "x" * 200}, []),
        ({"words": "x" * 201}, ["words"]),
        ({"words": "Pay\u202e now"}, ["words"]),
        ({"words": "Pay\nnow"}, ["words"]),
        ({"words": "Pay {iban}"}, ["words"]),  # no member
        ({"words": "Pay {urgent}"}, ["words"]),  # not always there
        ({"words": "Pay {amount}"}, ["words"]),  # an object
        ({"words": "Pay {creditor.name}"}, ["words"]),
        ({"words": "Pay {creditor"}, ["words"]),
        ({"words": "Pay {{creditor}}"}, ["words"]),
        ({"members": []}, ["members"]),
        ({"members": {"amount": "text"}, "words": "Pay"}, ["members"]),
        ({"members": {"type": {"kind": "text"}}, "words": "Pay"}, ["members"]),
        ({"members": {"a b": {"kind": "text"}}, "words": "Pay"}, ["members"]),
        ({"members": {"a" * 40: {"kind": "text"}}, "words": "Pay"}, []),
        ({"members": {"a" * 41: {"kind": "text"}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "number"}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "text", "pattern": ".*"}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "text", "values": ["x", "x"]}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "text", "values": ["\x00"]}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "flag", "values": ["yes"]}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "object"}}, "words": "Pay"}, ["members"]),
        ({"members": {"a": {"kind": "text", "members": {"b": {"kind": "text"}}}}, "words": "Pay"}, ["members"]),
        ({"members": {f"a{n}": {"kind": "text"} for n in range(20)}, "words": "Pay"}, []),
        ({"members": {f"a{n}": {"kind": "text"} for n in range(21)}, "words": "Pay"}, ["members"]),
    ],
)
def test_what_a_type_may_be(fields: dict[str, Any], bad: list[str]) -> None:
    """Both sides of each rule: names, sentences whose places are always filled, declarations of few kinds."""
    assert [field for field, _ in judged(**fields)] == bad


@pytest.mark.django_db
def test_objects_go_one_deep() -> None:
    """An object has texts, numbers and flags in it, and no further object."""
    inner = {"kind": "object", "members": {"b": {"kind": "text"}}}
    assert judged(words="Pay", members={"a": inner}) == []
    assert judged(words="Pay", members={"a": {"kind": "object", "members": {"b": inner}}}) == [("members", "members")]


@pytest.mark.django_db
def test_a_type_is_registered_once() -> None:
    """The identifier is taken then; the type itself may be judged again."""
    row = DetailType.objects.create(identifier="payment", words=SENTENCE, members=PAYMENT)
    assert judged() == [("identifier", "taken")]
    assert rules.problems_of(row) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"urgent": False, "times": 0, "accounts": ["giro"]}, None),
        ({"times": 2**53}, None),
        ({"times": 2**53 + 1}, "times"),
        ({"times": True}, "times"),
        ({"times": 1.0}, "times"),
        ({"times": "1"}, "times"),
        ({"urgent": "yes"}, "urgent"),
        ({"urgent": 1}, "urgent"),
        ({"urgent": None}, "urgent"),
        ({"accounts": []}, "accounts"),
        ({"accounts": ["giro", "giro"]}, "accounts"),
        ({"accounts": ["gold"]}, "accounts"),
        ({"accounts": "giro"}, "accounts"),
        ({"accounts": [["giro"]]}, "accounts"),
        ({"creditor": "x" * 200}, None),
        ({"creditor": "x" * 201}, "creditor"),
        ({"creditor": ""}, "creditor"),
        ({"creditor": " Zoé"}, "creditor"),
        ({"creditor": "Zoé\u202eéoZ"}, "creditor"),  # turns what follows around
        ({"creditor": "Zoé\u2066x"}, "creditor"),
        ({"creditor": "Zoé\n"}, "creditor"),
        ({"creditor": "\u200d"}, "creditor"),  # nothing is seen
        ({"creditor": "\u115f"}, "creditor"),
        ({"creditor": "\x00"}, "creditor"),
        *(({"creditor": f"DE02{unseen}03"}, "creditor") for unseen in "\u200c\u200d\u3164\u2800\u034f\ufe0f\u180b"),
        ({"creditor": "\u200cDE02"}, "creditor"),
        ({"creditor": "DE02\u200d"}, "creditor"),
        ({"creditor": "DE02  03"}, "creditor"),  # a page shows one space
        ({"creditor": "DE02 03"}, None),
        ({"creditor": "\u0645\u06cc\u200c\u062e\u0648"}, None),
        ({"creditor": {"name": "Zoé"}}, "creditor"),
        ({"amount": {"value": "1", "currency": "USD"}}, "currency"),
        ({"amount": {"value": "1"}}, "currency"),
        ({"amount": {"value": "1", "currency": "EUR", "more": "1"}}, "amount"),
        ({"amount": []}, "amount"),
        ({"note": {}}, "note"),  # a page would show nothing of it
        ({"note": {"text": "Rent"}}, None),
        ({"amount": "12.50 EUR"}, "amount"),
        ({"iban": "DE02"}, "a member"),
        ({"locations": ["https://bank.example"]}, "a member"),  # RFC 9396 §2.2: only where it is declared
    ],
)
def test_what_an_object_may_be(changes: dict[str, Any], problem: str | None) -> None:
    """Both sides of each kind; a refusal names the member, and repeats nothing that was sent."""
    found = members.problem_of({**GOOD, **changes}, members.declared(PAYMENT))
    assert (found is None) == (problem is None), found
    assert problem is None or problem in str(found)
    assert "Zo" not in str(found)


def test_a_required_member_is_required() -> None:
    """Left out, the object is refused; one that is not required may be left out."""
    declared = members.declared(PAYMENT)
    assert members.problem_of({"creditor": "Zoé"}, declared) == "lacks the member amount."
    assert members.problem_of({"amount": GOOD["amount"]}, declared) == "lacks the member creditor."


def run(*arguments: str) -> Any:
    """Return what the command prints."""
    out = StringIO()
    call_command("authorization_details_type", *arguments, stdout=out, stderr=StringIO(), no_color=True)
    return json.loads(out.getvalue())


@pytest.mark.django_db
def test_the_command() -> None:
    """It registers, lists, switches off and on, and deletes; each leaves one event, and what is wrong is named."""
    made = run("create", "--type", "payment", "--words", SENTENCE, "--members", json.dumps(PAYMENT))
    assert made == {
        "identifier": "payment", "words": SENTENCE, "members": PAYMENT, "unattended": False, "active": True,
    }  # fmt: skip
    assert run("list") == [made]
    assert run("disable", "payment")["active"] is False
    assert run("disable", "payment")["active"] is False
    assert run("enable", "payment")["active"] is True
    assert run("delete", "payment") == {"identifier": "payment", "deleted": True}
    events = AuditEvent.objects.order_by("pk").values_list("event", flat=True)
    assert list(events) == [
        "detail_type_created", "detail_type_changed", "detail_type_changed", "detail_type_deleted",
    ]  # fmt: skip
    assert run("create", "--type", "statement", "--words", "See it", "--unattended")["unattended"] is True
    for arguments, part in (
        (("create", "--type", "pay ment", "--words", "Pay {x}"), "--type: .*\n--words: "),
        (("create", "--type", "payment", "--words", "Pay", "--members", '{"a": 1, "a": 2}'), "--members: .*twice"),
        (("disable", "payment"), "no such type"),
        (("delete", "payment"), "no such type"),
    ):
        with pytest.raises(CommandError, match=part):
            run(*arguments)


ONE: dict[str, Any] = {"type": "payment", "creditor": "Zoé"}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "valid JSON"),
        ("{}", "array"),
        ("[]", "array"),
        ('["payment"]', "array"),
        ("[[]]", "array"),
        ("null", "array"),
        ("[{}]", "no type"),
        ('[{"type": 1}]', "no type"),
        ('[{"type": null}]', "no type"),
        ('[{"type": "a"}, {}]', "no type"),
        ('[{"type": "a", "type": "b"}]', "twice"),
        ('[{"type": "a", "x": {"y": 1, "y": 2}}]', "twice"),
        ('[{"type": "a", "x": NaN}]', "valid JSON"),
        ('[{"type": "\\ud800"}]', "valid JSON"),
        ('[{"type": "a", "x": {"y": [1]}}]', None),
        ('[{"type": "a", "x": {"y": [[1]]}}]', "deeper"),
        ("[" * 7_000, "valid JSON"),
        (json.dumps([{"type": f"t{n}"} for n in range(5)]), None),
        (json.dumps([{"type": f"t{n}"} for n in range(6)]), "more than 5"),
        (json.dumps([{"type": "t"}] * 6), None),  # one object
        (json.dumps([ONE]) + " " * 7_900, None),
        (json.dumps([ONE]) + " " * 8_000, "longer"),
        (json.dumps([{"type": "a", "x": "y" * 979}]), None),  # 1,000 bytes
        (json.dumps([{"type": "a", "x": "y" * 980}]), "more than 1,000"),
        (json.dumps([{"type": "a", "x": "é" * 490}]), "more than 1,000"),
        ("x" * 100_000, "longer"),
    ],
)
def test_what_a_list_may_be(text: str, part: str | None) -> None:
    """JSON with one meaning, objects with a type, and both sides of each bound."""
    if part is None:
        assert lists.read(text)
        return
    with pytest.raises(InvalidDetails, match=part):
        lists.read(text)


def test_equal_lists_are_equal_texts() -> None:
    """Order of members and white space mean nothing; a list is read back as it was."""
    one, other = (
        lists.read('[{"type":"a","x":1,"y":{"b":1,"a":2}}]'),
        lists.read('[ {"y":{"a":2,"b":1},"x":1,"type":"a"}]'),
    )
    assert lists.written(one[0]) == lists.written(other[0])
    text = lists.joined(map(lists.written, one))
    assert list(lists.stored(text)) == one
    assert (lists.joined([]), lists.stored("")) == ("", ())


@pytest.mark.parametrize(
    ("asked", "within"),
    [([{"type": "a", "x": 1}], True), ([], True), ([{"type": "a", "x": True}], False), ([{"type": "a"}], False),
     ([{"type": "a", "x": 1.0}], False), ([{"type": "a", "x": 1}, {"type": "b"}], False), ([{"type": "c"}], True)],
)  # fmt: skip
def test_less_is_whole_objects(asked: list[dict[str, Any]], within: bool) -> None:
    """An object is granted just so or not at all: no member may be left out, or be another."""
    assert lists.is_within(asked, [{"type": "a", "x": 1}, {"type": "c"}]) is within


def test_people_read_every_member() -> None:
    """Those of the sentence in it, set apart from the words around them, and all others below it by name."""
    detail = {"type": "payment", **GOOD, "urgent": True, "times": 3, "accounts": ["giro", "savings"]}
    shown = words.shown(SENTENCE, detail)
    assert shown.sentence == (
        Piece("Pay ", filled_in=False), Piece("12.50", filled_in=True), Piece(" ", filled_in=False),
        Piece("EUR", filled_in=True), Piece(" to ", filled_in=False), Piece("Zoé & Söhne", filled_in=True),
    )  # fmt: skip
    assert shown.rest == (("urgent", "yes"), ("times", "3"), ("accounts", "giro, savings"))


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        (["Ann", "Bob"], "Ann, Bob"), (["Ann, Bob"], '"Ann, Bob"'), (["Ann, Bob", "Cy"], '"Ann, Bob", "Cy"'),
        (['"Ann', 'Bob"'], '"\\"Ann", "Bob\\""'), (['Ann", "Bob'], '"Ann\\", \\"Bob"'),
    ],
)  # fmt: skip
def test_no_text_of_a_list_reads_as_two(texts: list[str], text: str) -> None:
    """Where one has what stands between texts, all are in quotes."""
    assert words.shown("Pay {to}", {"type": "payment", "to": texts}).sentence[1].text == text


def test_a_value_is_no_place() -> None:
    """Braces that the application has sent are shown, and name nothing."""
    shown = words.shown("Pay {creditor}", {"type": "payment", "creditor": "{amount.value}"})
    assert [one.text for one in shown.sentence] == ["Pay ", "{amount.value}"]
