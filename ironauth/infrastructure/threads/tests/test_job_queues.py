"""The fair queue: whose turn it is, who is refused when it is full, and that it keeps count."""

import random
import time
from collections import Counter
from itertools import count

import pytest

from ironauth.infrastructure.threads.job_queues import MOST_OF_ONE_OWNER, NOBODY, Claim, FairQueue, InOrder, Job

_moments = count()


class Full(Exception):
    """Raised for a job that has no place."""


def job(network: str = "", owner: str = "") -> Job:
    """Return a job with this claim, newer than every one before."""
    made = Job(lambda: None, claim=Claim(network, owner))
    made.submitted_at = next(_moments)
    return made


def filled(room: int, *claims: tuple[str, str]) -> tuple[FairQueue, list[Job]]:
    """Return a queue of so much room with these jobs in it."""
    queue = FairQueue(lambda: room)
    jobs = [job(*claim) for claim in claims]
    assert [queue.put(each) for each in jobs] == [None] * len(jobs)
    return queue, jobs


def taken(queue: FairQueue, most: int = 1_000) -> list[Claim]:
    """Return the claims in the order of their turns."""
    return [queue.take().claim for _ in range(min(most, len(queue)))]


def test_networks_take_turns() -> None:
    """One that came last with one job waits for one job of each other network, however many those have."""
    queue, _ = filled(100, *[("a", str(number)) for number in range(9)], ("b", "x"), ("b", "y"), ("c", "z"))
    assert [claim.network for claim in taken(queue, 6)] == ["a", "b", "c", "a", "b", "a"]


def test_a_network_that_is_alone_uses_everything() -> None:
    """A whole company behind one address fills all the room there is, one job each."""
    queue, _ = filled(50, *[("company", str(number)) for number in range(50)])
    assert not queue.admits(Claim("company", "50"))
    assert len(queue) == 50


def test_the_owners_of_a_network_take_turns() -> None:
    """Somebody's fourth job waits until everybody else in the network had a first one."""
    queue, _ = filled(100, *[("a", "greedy")] * 4, ("a", "mia"), ("a", "ben"))
    assert [claim.owner for claim in taken(queue)] == ["greedy", "mia", "ben", "greedy", "greedy", "greedy"]


def test_a_newcomer_within_its_share_takes_a_place_of_the_largest() -> None:
    """In a full queue the newest job of the network with the most is refused in place of another network's first."""
    queue, jobs = filled(4, ("flood", "1"), ("flood", "2"), ("flood", "3"), ("b", "x"))
    newcomer = job("c", "y")
    assert queue.admits(newcomer.claim)
    assert queue.put(newcomer) is jobs[2]
    assert len(queue) == 4
    assert Counter(claim.network for claim in taken(queue)) == {"flood": 2, "b": 1, "c": 1}


def test_of_the_largest_network_the_largest_owner_makes_room() -> None:
    """A colleague with one job keeps it: the one with three loses the newest."""
    queue, jobs = filled(4, ("a", "greedy"), ("a", "greedy"), ("a", "greedy"), ("a", "mia"))
    assert queue.put(job("b", "x")) is jobs[2]
    assert queue.put(job("a", "ben")) is jobs[1]


@pytest.mark.parametrize(
    ("held", "network"),
    [([("a", "1"), ("a", "2")], "a"), ([("a", "1"), ("b", "1")], "c"), ([("a", "1"), ("a", "2"), ("b", "1")], "b")],
    ids=["the largest itself", "everybody has one", "it would only change places"],
)
def test_who_holds_as_much_as_anybody_is_refused(held: list[tuple[str, str]], network: str) -> None:
    """In a full queue nobody is displaced for a newcomer who would then hold as much."""
    queue, jobs = filled(len(held), *held)
    newcomer = job(network, "new")
    assert not queue.admits(newcomer.claim)
    assert queue.put(newcomer) is newcomer
    assert Counter(taken(queue)) == Counter(each.claim for each in jobs)


def test_one_owner_has_four_places_while_others_wait() -> None:
    """In as many networks as there are: the fifth is refused beside others, and taken in where nobody else waits."""
    alone, _ = filled(100, *[(str(number), "greedy") for number in range(MOST_OF_ONE_OWNER + 1)])
    assert alone.admits(Claim("x", "greedy"))
    beside, _ = filled(100, ("a", "mia"), *[(str(number), "greedy") for number in range(MOST_OF_ONE_OWNER - 1)])
    assert beside.put(job("x", "greedy")) is None
    fifth = job("y", "greedy")
    assert not beside.admits(fifth.claim)
    assert beside.put(fifth) is fifth
    assert MOST_OF_ONE_OWNER == 4


def test_jobs_without_an_owner_are_no_owners() -> None:
    """Sign-ups from one network are bounded by its share alone."""
    queue, _ = filled(100, ("b", "x"), *[("a", "")] * 20)
    assert queue.admits(Claim("a"))


def test_no_room_at_all_is_no_place() -> None:
    """Where nothing may wait and nothing waits, there is nobody to be displaced."""
    queue = FairQueue(lambda: 0)
    assert not queue.admits(NOBODY)
    only = job()
    assert queue.put(only) is only


def test_the_turn_can_be_told_before() -> None:
    """No more than ``ahead_of`` jobs go before a newcomer, and exactly as many where its network had none."""
    chance = random.Random(22)
    for _ in range(200):
        claims = [(chance.choice("abc"), chance.choice("xyz")) for _ in range(chance.randrange(12))]
        queue = FairQueue(lambda: 100)
        for claim in claims:
            queue.put(job(*claim))
        newcomer = job(chance.choice("abcd"), chance.choice("xyzv"))
        ahead = queue.ahead_of(newcomer.claim)
        if queue.put(newcomer) is not None:
            continue  # has enough
        order = []
        while newcomer not in order:
            order.append(queue.take())
        assert len(order) - 1 <= ahead
        if newcomer.claim.network not in {network for network, _ in claims}:
            assert len(order) - 1 == ahead


def test_what_goes_is_counted_out() -> None:
    """However jobs come and go, the queue holds those that were neither taken, dropped nor displaced, each once."""
    chance = random.Random(7)
    queue, held = FairQueue(lambda: 12), set[Job]()
    for _ in range(5_000):
        act = chance.randrange(5)
        if act < 3:
            new = job(chance.choice("abcde"), chance.choice(["", "x", "y", "z"]))
            admitted = queue.admits(new.claim)
            out = queue.put(new)
            assert admitted == (out is not new)
            held.add(new)
            held.discard(out or job())
        elif act == 3 and len(queue):
            held.remove(queue.take())
        elif held:
            gone = chance.choice(sorted(held, key=lambda each: each.submitted_at))
            assert queue.drop(gone)
            assert not queue.drop(gone)
            held.remove(gone)
        assert len(queue) == len(held)
    assert {queue.take() for _ in range(len(queue))} == held
    assert not queue._lines
    assert not queue._owners


def test_a_refusal_in_a_long_queue_is_cheap() -> None:
    """Among 64 networks, as many as wait by default, one decision takes under a millisecond."""
    queue, _ = filled(64, *[(str(number), "x") for number in range(64)])
    began = time.perf_counter()
    for _ in range(100):
        assert not queue.admits(Claim("new", "y"))
    assert (time.perf_counter() - began) / 100 < 0.001


def test_in_order_is_in_order() -> None:
    """The plain queue takes jobs as they came, refuses none, and knows which it holds."""
    queue = InOrder()
    jobs = [job("a"), job("b"), job("a")]
    for each in jobs:
        queue.put(each)
    assert len(queue) == 3
    assert queue.drop(jobs[1])
    assert not queue.drop(jobs[1])
    assert [queue.take(), queue.take()] == [jobs[0], jobs[2]]
