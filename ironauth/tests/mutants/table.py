"""The table of mutants, read from the files of the folder ``subjects``, each of which has its subject as its name."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = Path(__file__).parent / "subjects"


class Mutant(NamedTuple):
    """A change of the source that breaks a promise.

    Attributes:
        subject: What the promise is about.
        name: What is true of the product with the change.
        file: Which file is changed.
        text: What stands there, exactly, ``times`` times.
        mutated: What stands there instead.
        tests: The tests of which one has to fail, as pytest names them.
        times: How often ``text`` is in the file; each is changed.
        storage: What the tests run on.
    """

    subject: str
    name: str
    file: str
    text: str
    mutated: str
    tests: tuple[str, ...]
    times: int = 1
    storage: str = "sqlite"

    def applied(self, source: str) -> str:
        """Return the source with the change.

        Args:
            source: What the file says.

        Raises:
            ValueError: The text is not in it as often as the table says.
        """
        found = source.count(self.text)
        if found != self.times:
            raise ValueError(f"{self.file} has the text of {self.name!r} {found} times, not {self.times}")
        return source.replace(self.text, self.mutated)


@cache
def mutants() -> tuple[Mutant, ...]:
    """Return all of them, by subject."""
    return tuple(
        Mutant(path.stem.replace("_", " "), **{**row, "tests": tuple(row["tests"])})
        for path in sorted(FOLDER.glob("*.toml"))
        for row in tomllib.loads(path.read_text())["mutant"]
    )
