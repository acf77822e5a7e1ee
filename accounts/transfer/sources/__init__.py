"""The systems people come from: one module each, which reads that system's export into ``records.Person``."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from accounts.transfer.records import MalformedError, Person, Reason, Refused
from accounts.transfer.streams import records_of


class Options(NamedTuple):
    """What a source may need beside its file."""

    hash_config: Path | None = None  # Firebase's password hash parameters
    database: Mapping[str, Any] | None = None  # of a live Django project, as in ``DATABASES``


class Source(NamedTuple):
    """One system: the lists of its export that hold people, and how one of them is read."""

    name: str
    reads: str  # what the file is, for the command's help
    person: Callable[[dict[str, Any]], Person]
    keys: tuple[str, ...] = ()
    #: Another way to come to the records than the elements of one file.
    records: Callable[[Path, Options], Iterator[Any]] | None = None
    #: Prepares ``person`` where that needs an option.
    configured: Callable[[Options], Callable[[dict[str, Any]], Person]] | None = None


def people(source: Source, path: Path, options: Options) -> Iterator[Person | Refused]:
    """Yield everybody in an export, in the order of the file; a malformed record is yielded as ``Refused``.

    Args:
        source: The system that the export comes from.
        path: The file.
        options: What the command line adds for this system.

    Raises:
        MalformedError: The file is no export of this system, or an option is missing.
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    read = source.configured(options) if source.configured else source.person
    found: Iterator[Any] = source.records(path, options) if source.records else records_of(path, *source.keys)
    for record in found:
        if not isinstance(record, dict):
            yield Refused("", Reason.MALFORMED)
            continue
        try:
            yield read(record)
        except (MalformedError, KeyError, TypeError, ValueError, AttributeError):
            yield Refused(str(record.get("id") or record.get("user_id") or "")[:64], Reason.MALFORMED)


__all__: Final = ["Options", "Source", "people"]
