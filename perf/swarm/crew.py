"""What the users of one Locust process share: their assignment, their people, their counters."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from perf.swarm import assignment as assignments
from perf.swarm.assignment import Assignment
from perf.swarm.people import Ledger, People
from perf.swarm.thresholds import Tally


@dataclass
class Crew:
    """One process of the swarm. ``total`` is what all processes counted, as far as they have reported."""

    assignment: Assignment
    index: int = 0
    tally: Tally = field(default_factory=Tally)
    total: Tally = field(default_factory=Tally)
    _serial: int = 0

    def __post_init__(self) -> None:
        self.enrol(self.index)

    def enrol(self, index: int) -> None:
        """Become process ``index``: known only once Locust has forked and the master has given it out."""
        given = self.assignment
        self.index = index
        self.people = People(given.address, given.people, index=index, processes=given.processes)
        self.ledger = Ledger(Path(given.ledger), f"process-{os.getpid()}")

    def new_address(self) -> str:
        """Return an address that no other newcomer of any process has."""
        self._serial += 1
        return f"{self.assignment.prefix}-{os.getpid()}-{self._serial}@swarm.example"


CREW = Crew(assignments.read())
