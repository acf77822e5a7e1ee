"""The swarm's pure parts: shapes, schedule, people, counters, ledger, answers, command line.

None of these imports Locust, which replaces the standard library's sockets and threads in the whole process.
"""

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from perf.swarm.answers import Answer, only_session, retry_after_s, token_pair, user_of, verified, wrong
from perf.swarm.assignment import SHAPES, Assignment, Shape, Stage, stages, users_at, write
from perf.swarm.options import MAX_SECONDS, parse
from perf.swarm.people import Exhausted, Ledger, People, Schedule, still_open
from perf.swarm.thresholds import Limits, Tally

ROOT = Path(__file__).resolve().parents[2]
#: A user whose pause Locust ends a turn too late, when its next request is on the way; ``argv``: the assignment's file.
KILLED_IN_A_REQUEST = """
import os, sys
os.environ["IRONAUTH_SWARM"] = sys.argv[1]
from perf.swarm import visitor  # first: with Locust come gevent's sockets
import gevent
from locust.env import Environment

class Guest(visitor.Visitor):
    host = "http://127.0.0.1:9"

    def _send(self, *_, **__):
        gevent.sleep(0.05)
        return visitor.Answer(204, {}, b""), True

guest = Guest(Environment(user_classes=[Guest]))
guest._state = "running"
asking = gevent.spawn(guest.call, "POST", "/logout", expect=204)
gevent.sleep(0.01)
asking.kill(block=False)
asking.join(5)
print(asking.value.status, guest._state)
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_reaches_its_users_and_ends(shape: Shape) -> None:
    """No shape has more users than asked for, each has as many at some time, and all end at the given second."""
    plan = stages(shape, 40, 100)
    counts = [users_at(plan, second) for second in range(100)]
    assert max(count for count in counts if count is not None) == 40
    assert None not in counts
    assert users_at(plan, 100) is None
    assert [stage.until_s for stage in plan] == sorted(stage.until_s for stage in plan)


def test_shapes_have_their_form() -> None:
    """A ramp only rises, a spike is a peak between two calms, a soak is at its level after a tenth of the time."""
    ramp = [stage.users for stage in stages("ramp", 35, 60)]
    assert ramp == sorted(ramp)
    assert ramp[0] == 4
    spike = stages("spike", 100, 60)
    assert [(stage.users, stage.until_s) for stage in spike] == [(25, 24), (100, 42), (25, 60)]
    assert users_at(stages("soak", 40, 100), 10) == 40
    assert users_at(stages("soak", 40, 3_600), 59) == 40  # the last step of a long one begins after 45 s
    assert users_at(stages("soak", 40, 3_600), 14) == 10
    assert stages("constant", 3, 9) == (Stage(9, 3),)


@pytest.mark.parametrize(("users", "seconds"), [(0, 10), (1, 0)])
def test_a_shape_needs_users_and_time(users: int, seconds: float) -> None:
    """Nobody, or no time, is an error."""
    with pytest.raises(ValueError, match="at least one user"):
        stages("ramp", users, seconds)


def test_a_schedule_keeps_its_times_and_counts_what_is_late() -> None:
    """A run that takes too long makes the next ones late until they have caught up; the times do not move."""
    schedule = Schedule(1.0, start_s=10.0)
    assert schedule.wait_s(9.5) == 0.5
    schedule.begin(10.0)
    assert schedule.wait_s(10.2) == pytest.approx(0.8)
    schedule.begin(11.0)
    assert schedule.wait_s(13.5) == 0  # took 2.5 s
    schedule.begin(13.5)
    schedule.begin(13.6)
    assert (schedule.started, schedule.late, schedule.latest_s) == (4, 2, 1.5)
    assert schedule.wait_s(13.6) == pytest.approx(0.4)
    schedule.begin(14.1)  # a tenth of a second is not late
    assert schedule.late == 2


def test_a_schedule_skips_what_it_was_told_to_wait_for() -> None:
    """After a pause the server asked for, nothing is overdue, and the times stay on their beat."""
    schedule = Schedule(2.0, start_s=0.0)
    schedule.begin(0.0)
    schedule.skip(7.0)
    assert schedule.wait_s(7.0) == 1.0
    schedule.begin(8.0)
    assert schedule.late == 0
    schedule.skip(8.5)
    assert schedule.wait_s(8.5) == 1.5  # nothing was overdue


def test_no_two_processes_have_the_same_person() -> None:
    """The slices of all processes are disjoint and everybody is in one of them."""
    slices = []
    for index in range(3):
        people = People("p{serial}@x.example", 10, index=index, processes=3)
        slices.append([people.take() for _ in range(len(range(index, 10, 3)))])
        with pytest.raises(Exhausted, match="--people"):
            people.take()
    everybody = [address for part in slices for address in part]
    assert sorted(everybody) == sorted(f"p{serial}@x.example" for serial in range(10))
    with pytest.raises(ValueError, match="none of 3"):
        People("{serial}", 10, index=3, processes=3)


def test_who_is_given_back_is_taken_again_last() -> None:
    """Nobody is in use twice at a time, and anybody who came back waits behind the others."""
    people = People("{serial}", 3, index=0, processes=1)
    assert (people.take(), people.take()) == ("0", "1")
    people.give_back("0")
    assert (people.take(), people.take()) == ("2", "0")


def test_tallies_of_processes_add_up() -> None:
    """What a process takes to the master and what is added there is the sum, and is not counted twice."""
    total, first, second = Tally(), Tally(), Tally()
    first.count("answers", "0", 5)
    first.count("shed", "POST /signin")
    first.late, first.starts, first.latest_ms = 1, 10, 300.0
    second.count("answers", "1", 7)
    second.late, second.starts, second.latest_ms = 0, 10, 20.0
    for tally in (first, second, first, second):
        total.add(msgspec.convert(tally.take(), Tally))
    assert total.answers == {"0": 5, "1": 7}
    assert total.shed == {"POST /signin": 1}
    assert (total.starts, total.late, total.latest_ms, total.late_percent) == (20, 1, 300.0, 5.0)
    assert first == second == Tally()


def test_the_ledger_of_all_processes_knows_what_is_still_open(tmp_path: Path) -> None:
    """An account is open until any process says it is closed."""
    one, other = Ledger(tmp_path, "1"), Ledger(tmp_path, "2")
    for ledger, email in ((one, "a"), (one, "b"), (other, "c")):
        ledger.made(email)
    one.closed("a")
    other.closed("b")
    assert still_open(tmp_path) == ["c"]


def answer(status: int, body: object = b"", **headers: str) -> Answer:
    """Make an answer as the server gives it."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"x-request-id": "r", "cache-control": "no-store"} | given, content)


ME = {
    "id": str(uuid4()), "email": "a@x.example", "name": "", "is_active": True, "is_staff": False, "is_superuser": False,
    "email_verified": False, "roles": [], "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
PAIR = {
    "access_token": "a", "token_type": "Bearer", "expires_in": 600, "refresh_token": "r", "refresh_expires_in": 9,
    "session_id": str(uuid4()),
}  # fmt: skip
PROBLEM = {
    "type": "about:blank",
    "title": "t",
    "status": 401,
    "detail": "d",
    "code": "invalid_token",
    "request_id": "r",
}
DEVICE = {"id": str(uuid4()), "current": True}


@pytest.mark.parametrize(
    ("given", "expected", "check", "reason"),
    [
        (answer(200, ME), 200, user_of("a@x.example"), ""),
        (answer(200, ME), 200, user_of("b@x.example"), "somebody else's User"),
        (answer(200, ME | {"is_active": False}), 200, user_of("a@x.example"), "a User who is not active"),
        (answer(200, {"id": ME["id"]}), 200, user_of("a@x.example"), "not a User"),
        (answer(200, ME, cache_control="public"), 200, user_of("a@x.example"), "an answer that caches may store"),
        (answer(200, ME, x_request_id=""), 200, None, "no X-Request-ID"),
        (answer(401, PROBLEM), 200, None, "401 invalid_token instead of 200"),
        (answer(500, b"<h1>"), 200, None, "500 without a problem document instead of 200"),
        (answer(401, PROBLEM), 401, None, ""),
        (answer(401, b""), 401, None, "401 without a problem document"),
        (Answer(0, {}, b"ConnectionRefusedError"), 200, None, "no answer: ConnectionRefusedError"),
        (answer(200, PAIR), 200, token_pair, ""),
        (answer(200, PAIR | {"refresh_token": ""}), 200, token_pair, "a TokenPair with an empty member"),
        (answer(200, PAIR | {"token_type": "MAC"}), 200, token_pair, "not a TokenPair"),
        (answer(200, [DEVICE]), 200, only_session, ""),
        (answer(200, [DEVICE, DEVICE]), 200, only_session, "sessions that should have ended"),
        (answer(200, [DEVICE | {"current": False}]), 200, only_session, "a list without the current session"),
        (answer(200, {}), 200, only_session, "not a list of sessions"),
        (answer(204, x_auth_subject="7"), 204, verified("7"), ""),
        (answer(204, x_auth_subject="8"), 204, verified("7"), "X-Auth-Subject of somebody else"),
    ],
)
def test_answers_are_judged_by_status_and_body(given: Answer, expected: int, check: None, reason: str) -> None:
    """A right answer has no reason against it; each wrong one is called by what is wrong with it."""
    assert wrong(given, expected, check) == reason


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (answer(503, PROBLEM, retry_after="4"), 4),
        (answer(503, PROBLEM), None),
        (answer(429, PROBLEM, retry_after="4"), None),
        (answer(503, PROBLEM, retry_after="soon"), None),
    ],
)
def test_only_a_503_with_seconds_to_wait_is_shed_load(given: Answer, seconds: int | None) -> None:
    """Without Retry-After a 503 is a failure like any other."""
    assert retry_after_s(given) == seconds


def test_a_spike_may_shed_load_and_others_may_not_unless_told() -> None:
    """Whether 503 is all right follows from the shape, and the command line has the last word."""
    assert parse(["--shape", "spike"]).limits.allow_shed
    assert not parse([]).limits.allow_shed
    assert not parse(["--shape", "spike", "--no-allow-shed"]).limits.allow_shed
    assert parse(["--allow-shed"]).limits.allow_shed
    assert parse(["--set", "IRONAUTH_ACCESS_TOKEN_S=5"]).settings == {"IRONAUTH_ACCESS_TOKEN_S": "5"}
    assert parse(["--host", "http://[::1]:8000/"]).host == "http://[::1]:8000"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--host", "http://192.0.2.1"],
        ["--host", "https://127.0.0.1"],
        ["--host", "http://127.0.0.1/path"],
        ["--seconds", str(MAX_SECONDS + 1)],
        ["--users", "0"],
        ["--users", "999999"],
        ["--set", "NAME"],
        ["--shape", "square"],
        ["--web-port", "0", "--ui"],
        ["--web-port", "99999", "--ui"],
        ["--web-port", "9089"],
        ["--people", "1", "--processes", "2"],
    ],
)
def test_unbounded_or_distant_load_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Only this machine, only for a while, only so many: anything else does not start."""
    with pytest.raises(SystemExit) as refused:
        parse(arguments)
    assert refused.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_quick_run_is_long_enough_for_its_own_journeys() -> None:
    """Half the users, journeys of a quarter; a member's then takes up to 12 s, and a newcomer comes every 4 s."""
    quick = parse(["--quick"])
    assert (quick.seconds, quick.think, quick.users) == (20, 0.25, 20)
    assert quick.seconds > 45 * quick.think + quick.users / quick.spawn_rate  # the last to come ends a journey too
    assert (quick.limits.signin_p95_ms, quick.limits.min_requests) == (5_000, 100)
    given = parse(["--quick", "--seconds", "4", "--think", "2", "--users", "9"])
    assert (given.seconds, given.think, given.users) == (4, 2, 9)
    full = parse([])
    assert (full.seconds, full.think, full.users, full.web_port) == (60, 1, 40, 8_089)


def test_the_pure_parts_do_not_import_locust() -> None:
    """Neither Locust nor gevent come along with what these tests, or the runner, import."""
    program = "import sys, perf.swarm.run; sys.exit(any(name in sys.modules for name in ('locust', 'gevent')))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


@pytest.mark.live
def test_a_request_is_never_cut_short(tmp_path: Path) -> None:
    """Killed in one, a user ends it, and then itself at its next pause: who signs in is known to have to sign out."""
    limits = Limits(me_p95_ms=1, signin_p95_ms=1, min_requests=1, late_percent=1, allow_shed=False)
    given = Assignment(
        host="",
        shape="spike",
        users=1,
        seconds=1,
        spawn_rate=1,
        processes=1,
        people=1,
        address="{serial}",
        password="",
        prefix="",
        think=1,
        rate=1,
        revocation=True,
        limits=limits,
        ledger=str(tmp_path),
        result="",
    )
    write(given, tmp_path / "assignment.json")
    command = [sys.executable, "-c", KILLED_IN_A_REQUEST, str(tmp_path / "assignment.json")]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.split() == ["204", "stopping"]
