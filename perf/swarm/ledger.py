"""Which accounts a run has made and not closed: kept in files, so that an interrupted run can be cleaned up too."""

from pathlib import Path

_MADE, _CLOSED = "+", "-"


class Ledger:
    """One process' file in the ledger's folder; every line is on disk before the request it tells of is sent."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._path = folder / f"{owner}.ledger"

    def made(self, email: str) -> None:
        """Note an account that is about to be made."""
        self._write(_MADE, email)

    def closed(self, email: str) -> None:
        """Note that an account exists no more, or never did."""
        self._write(_CLOSED, email)

    def _write(self, sign: str, email: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{sign}{email}\n")


def still_open(folder: Path) -> list[str]:
    """Return the addresses that were made and not closed, of all processes, in the order they were made."""
    lines = [line for path in sorted(folder.glob("*.ledger")) for line in path.read_text("utf-8").splitlines()]
    closed = {line[1:] for line in lines if line.startswith(_CLOSED)}
    return [line[1:] for line in lines if line.startswith(_MADE) and line[1:] not in closed]
