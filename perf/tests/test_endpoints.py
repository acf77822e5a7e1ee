"""What the latency experiment asks for: everything there is, in requests that fit."""

import json
import re
from collections.abc import Iterator

import pytest

from perf.load.endpoints import BY_CLIENT, BY_DEVICE, BY_MAIL, ENDPOINTS, HASHING, Endpoint, Member, Supply
from perf.load.sources import TokenPair
from perf.rig.seed import SeededSession
from perf.rig.site_setup import ROOT

#: Measured although the OpenAPI document has no word about them: pages for people.
PAGES = {"GET /", "GET /favicon.ico", "GET /admin/login/"}
COUNT = 3


def documented() -> set[str]:
    """Return every operation of the published document."""
    paths = json.loads((ROOT / "ironauth" / "openapi.json").read_text())["paths"]
    methods = ("get", "post", "put", "patch", "delete")
    return {f"{method.upper()} {path}" for path, item in paths.items() for method in item if method in methods}


def people() -> Iterator[Member]:
    """Make people without end."""
    number = 0
    while True:
        number += 1
        session = SeededSession(f"user-{number}", f"session-{number}", f"refresh-{number}")
        yield Member(session, TokenPair(f"access-{number}", f"refresh-{number}"))


def supply() -> Supply:
    """Make what the requests need, and the people who have the role already."""
    everybody = people()
    made = Supply("127.0.0.1:8000", next(everybody), next(everybody), everybody)
    made.with_role.extend(made.take(COUNT))
    return made


def test_nothing_is_forgotten() -> None:
    """Every documented operation is measured, unless named as one that hashes, or needs a message, device or client."""
    left_out = HASHING | BY_MAIL | BY_DEVICE | BY_CLIENT
    assert documented() >= left_out
    assert {endpoint.operation for endpoint in ENDPOINTS} - PAGES == documented() - left_out


def test_only_the_admin_is_not_promised() -> None:
    """What the promised median leaves out is the admin's page alone."""
    assert [each.operation for each in ENDPOINTS if not each.promised] == ["GET /admin/login/"]


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.title)
def test_requests_are_of_the_operation_and_as_many_as_asked(endpoint: Endpoint) -> None:
    """Each source sends its operation, over a path with every variable filled in, and ends after the count."""
    source = endpoint.source(supply(), COUNT)
    requests = [request for _ in range(COUNT + 1) if (request := source.next_request()) is not None]
    assert len(requests) == COUNT
    method, _, path = endpoint.operation.partition(" ")
    pattern = re.sub(r"\\{\w+\\}", r"[a-z0-9-]+", re.escape(path))
    for request in requests:
        head, _, body = request.partition(b"\r\n\r\n")
        sent, target, version = head.decode().split("\r\n")[0].split(" ")
        assert (sent, version) == (method, "HTTP/1.1")
        assert re.fullmatch(pattern, target)
        assert (f"Content-Length: {len(body)}" in head.decode()) == bool(body)


def test_who_is_signed_out_is_never_asked_again() -> None:
    """Requests that end or delete something are of different people each time, across rounds."""
    ending = [each for each in ENDPOINTS if "logout" in each.operation or each.operation.startswith("DELETE")]
    assert len(ending) >= 6
    stock = supply()
    for endpoint in ending:
        if "roles" in endpoint.operation:
            continue  # giving and taking a role is of the same people
        requests = []
        for _ in range(2):
            source = endpoint.source(stock, COUNT)
            requests += [source.next_request() for _ in range(COUNT)]
        assert len(set(requests)) == 2 * COUNT


def test_too_few_people_are_an_error() -> None:
    """An experiment that would run out says so instead of measuring refusals."""
    everybody = people()
    poor = Supply("127.0.0.1:8000", next(everybody), next(everybody), iter([next(everybody)]))
    with pytest.raises(LookupError, match="3 more people are needed and 1 are left"):
        poor.take(3)
