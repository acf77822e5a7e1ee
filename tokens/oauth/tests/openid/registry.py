"""Plans and their modules: each module's name, what it checks, and what is said of our result."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tokens.oauth.tests.openid.browser import Browser
from tokens.oauth.tests.openid.relying_party import RelyingParty
from tokens.oauth.tests.openid.site import Site

RELEASE: Final = "5.2.4"


@dataclass
class Trial:
    """One run of a module: the server, what its plan says of the clients, and what was not as it should be."""

    site: Site
    mode: str = ""
    signed: bool = False
    warnings: list[str] = field(default_factory=list)

    def client(self, **fields: Any) -> RelyingParty:
        """Return a new client as the suite's: confidential, and without PKCE unless fields say otherwise."""
        return RelyingParty(self.site, mode=self.mode, **{"profile": "oidc", **fields})

    def browser(self) -> Browser:
        """Return a new browser, in which nobody is signed in."""
        return Browser(self.site)

    def should(self, holds: bool, words: str) -> None:
        """Note what the suite warns of where it does not hold."""
        if not holds:
            self.warnings.append(words)


type Run = Callable[[Trial], None]


@dataclass(frozen=True)
class Module:
    """A module of the suite.

    Attributes:
        name: As the suite has it.
        checks: What it checks, in one sentence.
        run: The test.
        warning: Why we do not follow a *should* that it asks for; "" where it passes. The test knows which it is.
        skipped: Why the suite leaves it out here; the test checks the reason.
        failed: Why it fails; the test checks what happens instead.
    """

    name: str
    checks: str
    run: Run
    warning: str = ""
    skipped: str = ""
    failed: str = ""

    @property
    def result(self) -> str:
        """What the suite would say."""
        if self.failed:
            return "failed"
        return "skipped" if self.skipped else "warning" if self.warning else "passed"

    @property
    def reason(self) -> str:
        """Why it is not just passed; "" where it is."""
        return self.failed or self.skipped or self.warning


class Modules(list[Module]):
    """Modules of one or several plans, in the order in which they were added."""

    def add(
        self, name: str, checks: str, *, warning: str = "", skipped: str = "", failed: str = ""
    ) -> Callable[[Run], Run]:
        """Return the decorator that registers a module.

        Args:
            name: As the suite has it.
            checks: What it checks.
            warning: Why a *should* is not followed.
            skipped: Why the suite leaves it out here.
            failed: Why it fails.
        """

        def register(run: Run) -> Run:
            self.append(Module(name, checks, run, warning, skipped, failed))
            return run

        return register


@dataclass(frozen=True)
class Plan:
    """A plan of the suite.

    Attributes:
        name: As the suite has it.
        title: What people call it.
        groups: Its modules.
        mode: The response mode that its clients ask for; "" for none.
        signed: Whether its clients sign their requests.
        variant: How its clients differ from those of the plan before, as the suite says it; "" for a whole plan.
    """

    name: str
    title: str
    groups: tuple[Modules, ...]
    mode: str = ""
    signed: bool = False
    variant: str = ""

    @property
    def modules(self) -> Iterator[Module]:
        """Its modules."""
        return itertools.chain(*self.groups)


def each(plans: tuple[Plan, ...]) -> Iterator[tuple[Plan, Module]]:
    """Yield every module with its plan."""
    for plan in plans:
        for module in plan.modules:
            yield plan, module
