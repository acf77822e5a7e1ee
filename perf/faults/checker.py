"""Holds every answer against what IronAuth promises, and remembers what it takes to know."""

import base64
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

UNAVAILABLE = 503
HASHING = "sign-in"  # the act whose time is Argon2's
FIRST_ERROR = 500
MOST_DETAILS = 20
#: Seconds by which the end of the grace window may be seen earlier by the server than by who counts from its request.
SLACK_S = 0.5


@dataclass(frozen=True)
class Allowed:
    """What a fault may cost, beyond 503.

    ``losing``: connections may break, because a process dies or a reply is cut. ``ending``: sessions may end without
    anybody's doing, and why. ``spotless``: not even a 503. ``adding_s``: by how much the longest answer may be longer.
    """

    losing: bool = False
    ending: str = ""
    spotless: bool = False
    adding_s: float = float("inf")


@dataclass
class Figures:
    """What was seen during one fault; times in seconds. ``ended``: sessions lost where that is allowed.

    ``usual_s``, ``slowest_s``: the longest answer before the fault and since it began, but to sign-ins, which hash.

    ``details``: of the first broken promises, for looking them up in the servers' logs.
    """

    answers: int = 0
    unavailable: int = 0
    other_5xx: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    longest_refusal_s: float = 0.0
    usual_s: float = 0.0
    slowest_s: float = 0.0
    revocations: int = 0
    latest_acceptance_s: float = 0.0
    most_generations: int = 1
    refreshed: int = 0
    ended: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    @property
    def added_s(self) -> float:
        """What the fault added to the longest answer."""
        return max(0.0, self.slowest_s - self.usual_s)


class Checker:
    """Judges answers as they come; ``figures`` are those since ``begin``, what is revoked stays revoked.

    ``bound_s``: how long a revoked token may still be accepted somewhere. ``grace_s``: how long a used refresh token
    gets the same successor.
    """

    def __init__(self, *, bound_s: float, grace_s: float) -> None:
        self.bound_s = bound_s
        self.grace_s = grace_s
        self.allowed = Allowed()
        self.figures = Figures()
        self._revoked: dict[str, float] = {}
        self._dropped: dict[str, float | None] = {}  # None: being dropped
        self._successors: dict[str, set[str]] = {}

    def begin(self, allowed: Allowed) -> None:
        """Count from nothing, for another fault."""
        self.allowed = allowed
        self.figures = Figures()

    def breaks(self) -> None:
        """Note that the fault begins: what was seen until now is how long answers take without it."""
        self.figures.usual_s, self.figures.slowest_s = self.figures.slowest_s, 0.0

    def over(self) -> None:
        """Judge how long answers took since the fault began, for those that it may hardly touch."""
        if self.figures.added_s > self.allowed.adding_s:
            self.broken(f"an answer took over {self.allowed.adding_s:g} s longer", f"{self.figures.added_s:.2f} s")

    def answered(self, act: str, status: int, took_s: float, *, retry: bool = True) -> None:
        """Note an answer to whatever was asked; ``retry``: whether it says when to try again."""
        self.figures.answers += 1
        if act != HASHING:
            self.figures.slowest_s = max(self.figures.slowest_s, took_s)
        if status == UNAVAILABLE:
            self.figures.unavailable += 1
            self.figures.longest_refusal_s = max(self.figures.longest_refusal_s, took_s)
            if not retry:
                self.broken(f"{act} was answered with 503 without Retry-After")
            if self.allowed.spotless:
                self.broken(f"{act} was answered with 503, and nothing was missing")
        elif status >= FIRST_ERROR:
            self.figures.other_5xx += 1
            self.broken(f"{act} was answered with {status}")

    def lost(self, act: str, kind: str) -> None:
        """Note a request without an answer."""
        self.figures.lost[kind] += 1
        if kind == "timeout" or not self.allowed.losing:
            self.broken(f"{act} got no answer ({kind})")

    def revoked(self, token: str, at: float) -> None:
        """Note that the answer which confirms an access token's revocation was there ``at``."""
        self._revoked[token] = at
        self.figures.revocations += 1

    def dropping(self, kid: str) -> None:
        """Note that a signing key is about to be dropped: from now on its tokens may be refused."""
        self._dropped[kid] = None

    def dropped(self, kid: str, at: float) -> None:
        """Note that a signing key was dropped ``at``: what it signed is revoked, also what a worker signs later."""
        self._dropped[kid] = at
        self.figures.revocations += 1

    def accepted(self, token: str, began: float, worker: int = 0) -> None:
        """Judge that a request which ``began`` then was let in by this access token, by that process."""
        ends = [self._revoked.get(token), self._dropped.get(key_of(token)) if self._dropped else None]
        for end in ends:
            if end is None or began <= end:
                continue
            late = began - end
            self.figures.latest_acceptance_s = max(self.figures.latest_acceptance_s, late)
            if late > self.bound_s:
                about = f"session {session_of(token)}, worker {worker}, {late:.2f} s after"
                self.broken(f"a revoked token was accepted more than {self.bound_s:g} s later", about)

    def refused(self, act: str, token: str) -> None:
        """Judge a 401 for an access token that has not expired."""
        if token not in self._revoked and key_of(token) not in self._dropped:
            self.broken(f"{act} was refused to a session that lives")

    def succeeded(self, presented: str, successor: str) -> None:
        """Judge what a refresh token was exchanged for."""
        self.figures.refreshed += 1
        known = self._successors.setdefault(presented, set())
        known.add(successor)
        self.figures.most_generations = max(self.figures.most_generations, len(known))
        if len(known) > 1:
            self.broken("a refresh token has two successors")
        if generation_of(successor) != generation_of(presented) + 1:
            self.broken("a refresh token was exchanged for one that is not the next generation")

    def not_refreshed(self, *, first_tried: float | None, began: float) -> None:
        """Judge a 401 for a session's newest refresh token, or its predecessor.

        ``first_tried``: when it was presented first, if what came of that is not known: it may have been exchanged
        then, and the grace window may be over.
        """
        uncertain = first_tried is not None and began - first_tried > self.grace_s - SLACK_S
        if uncertain or self.allowed.ending:
            self.figures.ended += 1
        else:
            self.broken("a session that lives could not be refreshed")

    def reuse(self, status: int) -> None:
        """Judge the answer to a refresh token two generations old, or to the newest after that."""
        if status not in (401, UNAVAILABLE):
            self.figures.most_generations += 1
            self.broken("a refresh token of an older generation was accepted")

    def stored(self, *, held: int, found: int | None) -> None:
        """Judge the generation in the database against the newest one a client was told of; None: no live session."""
        if found is None:
            self.broken("a session that lives is not in the database")
        elif found < held:
            self.broken("a committed refresh is not in the database any more")
        elif found > held:
            self.figures.most_generations += 1
            self.broken("the database has a generation nobody was told of")

    def broken(self, promise: str, about: str = "") -> None:
        """Note a broken promise, and what helps to find out why."""
        self.figures.broken[promise] += 1
        if len(self.figures.details) < MOST_DETAILS:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.figures.details.append(f"{at} {promise}{': ' if about else ''}{about}")


def generation_of(refresh_token: str) -> int:
    """Return the number in a refresh token: ``base64url(session id (16 bytes) ‖ generation (4) ‖ …)``."""
    return int.from_bytes(_decoded(refresh_token)[16:20], "big")


def key_of(access_token: str) -> str:
    """Return the key id in an access token's header."""
    kid: str = msgspec.json.decode(_decoded(access_token.partition(".")[0])).get("kid", "")
    return kid


def session_of(access_token: str) -> str:
    """Return the session id in an access token."""
    sid: str = msgspec.json.decode(_decoded(access_token.split(".")[1])).get("sid", "")
    return sid


def kids(tokens: Iterable[str]) -> set[str]:
    """Return the key ids of access tokens."""
    return {key_of(token) for token in tokens}


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
