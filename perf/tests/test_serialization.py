"""The serialization trap's endpoints: the same answer four ways, and only where they are wanted."""

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from uuid import UUID

import msgspec
import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import include, path, resolve
from pytest_django import Settings

from ironauth import urls
from ironauth.asgi import application
from ironauth.infrastructure.http.handler import LeanHandler
from ironauth.infrastructure.threads.request_threads import RequestThreads
from ironauth.tests.asgi_conversation import Conversation
from perf.experiments.serialization import PATHS, WAYS, same_answer
from perf.serialization.outputs import ExerciseOut
from perf.serialization.payload import COUNT, exercises

urlpatterns = [path("perf/", include("perf.urls"))]
type Answer = Callable[[str], Awaitable[Conversation]]


@pytest.fixture
def answer() -> Iterator[Answer]:
    """Ask the API lane on this module's paths, without a token."""
    threads = RequestThreads(1)
    handler = LeanHandler(threads)

    async def ask(target: str) -> Conversation:
        return await Conversation(target).body().run(handler)

    yield ask
    threads.close()


@pytest.mark.urls(__name__)
async def test_every_way_answers_the_same(answer: Answer) -> None:
    """Fifty equal objects of about 55 kB come from each endpoint, as JSON that nobody keeps."""
    talks = [await answer(PATHS[way]) for way in WAYS]
    assert {talk.status for talk in talks} == {200}
    assert {talk.headers["content-type"] for talk in talks} == {"application/json"}
    decoded = [json.loads(talk.content) for talk in talks]
    assert len(decoded[0]) == COUNT
    assert all(other == decoded[0] for other in decoded)
    assert all(52_000 <= len(talk.content) <= 58_000 for talk in talks)


@pytest.mark.urls(__name__)
async def test_the_answer_is_the_objects(answer: Answer) -> None:
    """What DRF writes, read back, has the UUIDs, times and nested lists of the objects."""
    read = msgspec.json.decode((await answer(PATHS["drf"])).content, type=list[ExerciseOut])
    for got, meant in zip(read, exercises(), strict=True):
        assert isinstance(got.id, UUID)
        assert isinstance(got.created_at, datetime)
        assert msgspec.to_builtins(got) == msgspec.to_builtins(meant)


def test_the_payload_has_every_kind_of_value() -> None:
    """None and a value of each optional field occur, and no list is empty."""
    made = exercises()
    for values in ([each.author_id for each in made], [each.archived_at for each in made]):
        assert None in values
        assert any(values)
    assert all(each.muscles and each.equipment and each.tags and each.steps for each in made)
    assert len({each.id for each in made}) == COUNT


def test_without_the_setting_there_are_no_such_paths() -> None:
    """By default the URLconf does not even include the laboratory."""
    assert urls.laboratory() == []


async def test_without_the_setting_the_answer_is_that_of_any_unknown_path() -> None:
    """A client cannot tell /perf/ from a path that never existed."""
    answers = [
        json.loads((await Conversation(target).body().run(application)).content)
        for target in (PATHS["drf"], "/nowhere/serialization/drf")
    ]
    for body in answers:
        del body["request_id"]
    assert answers[0] == answers[1]
    assert answers[0]["status"] == 404


def test_with_the_setting_they_are_included(settings: Settings) -> None:
    """The product includes the endpoints by name."""
    settings.IRONAUTH_PERF_ENDPOINTS = True
    (found,) = urls.laboratory()
    assert all(found.resolve(PATHS[way].removeprefix("/")) for way in WAYS)


@pytest.mark.urls(__name__)
def test_the_endpoints_are_in_no_document() -> None:
    """Anybody who builds the OpenAPI document with the setting on gets the committed one."""
    for way in WAYS:
        view: Callable[[HttpRequest], HttpResponse] = resolve(PATHS[way]).func
        assert view.cls.schema is None  # type: ignore[attr-defined] # DRF puts the class there


def test_different_answers_are_not_compared() -> None:
    """Measuring ways that do not answer the same would compare nothing."""
    assert same_answer([b'{"a":1, "b":2}', b'{"b":2,"a":1}']) == 14
    with pytest.raises(RuntimeError, match="do not answer the same"):
        same_answer([b"[1]", b"[2]"])
