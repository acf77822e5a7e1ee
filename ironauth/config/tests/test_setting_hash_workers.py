"""Settings of hash workers: addresses, files, and the pepper without which there are none."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from ironauth.config import hash_workers as setting_hash_workers
from ironauth.config.environment import Environment
from ironauth.config.hash_workers import HashWorkerSettings, WorkerAddress, WorkerTls
from ironauth.config.table import LIMITS

PEPPERS = {"k1": b"x" * 32}
WORKERS, CERT, KEY, CA = (f"IRONAUTH_HASH_WORKER{end}" for end in ("S", "_CERT", "_KEY", "_CA"))


def read(variables: dict[str, str], peppers: dict[str, bytes] | None = None) -> HashWorkerSettings | None:
    """Read as the settings do."""
    return setting_hash_workers.read(Environment(variables, LIMITS), peppers=PEPPERS if peppers is None else peppers)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The three files, by their variables."""
    found = {name: str(tmp_path / name) for name in (CERT, KEY, CA)}
    for path in found.values():
        Path(path).touch()
    return found


def test_there_are_none_by_default() -> None:
    """Nothing set is nothing used, with and without a pepper."""
    assert read({}) is None
    assert read({}, {}) is None
    assert read({WORKERS: " , "}) is None


def test_addresses_and_files_are_read(files: dict[str, str]) -> None:
    """Unix sockets and TLS may be mixed; the defaults are stated."""
    found = read({WORKERS: "unix:/run/hash.sock, tls://hash1.internal:8443,tls://[2001:db8::1]:1"} | files)
    assert found == HashWorkerSettings(
        (
            WorkerAddress("/run/hash.sock"),
            WorkerAddress("", "hash1.internal", 8443),
            WorkerAddress("", "2001:db8::1", 1),
        ),
        WorkerTls(Path(files[CERT]), Path(files[KEY]), Path(files[CA])),
        8,
        2.0,
    )
    assert read({WORKERS: "unix:/run/hash.sock"} | files).tls is None  # type: ignore[union-attr]  # one is named


def test_without_a_pepper_it_does_not_start() -> None:
    """The password itself would travel; the message has the remedy."""
    with pytest.raises(
        ImproperlyConfigured, match=r"^IRONAUTH_HASH_WORKERS needs IRONAUTH_PASSWORD_PEPPERS.*set a pep"
    ):
        read({WORKERS: "unix:/run/hash.sock"}, {})


@pytest.mark.parametrize(
    "address",
    [
        "hash1.internal:8443", "http://hash1.internal:8443", "tls://hash1.internal", "tls://hash1.internal:0",
        "tls://hash1.internal:65536", "tls://user@hash1.internal:8443", "tls://hash1.internal:8443/", "tls://:8443",
        "tls://Hash1:8443", "unix:run/hash.sock", "unix:", "unix:/" + "x" * 107,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str, files: dict[str, str]) -> None:
    """Each message names the item and does not repeat it."""
    with pytest.raises(
        ImproperlyConfigured, match=r"^IRONAUTH_HASH_WORKERS, item 2: .*write tls://host:port"
    ) as raised:
        read({WORKERS: f"unix:/run/hash.sock,{address}"} | files)
    assert address == "unix:" or address not in str(raised.value)


def test_bounds_of_addresses(files: dict[str, str]) -> None:
    """The longest path, the highest port and sixteen workers are taken; seventeen, or one twice, are not."""
    assert read({WORKERS: "unix:/" + "x" * 106})
    assert read({WORKERS: "tls://h:65535"} | files)
    many = [f"unix:/run/{number}" for number in range(17)]
    assert read({WORKERS: ",".join(many[:16])})
    for wrong in (many, [many[0], many[0]]):
        with pytest.raises(ImproperlyConfigured, match="at most 16 workers, each once"):
            read({WORKERS: ",".join(wrong)})


@pytest.mark.parametrize("name", [CERT, KEY, CA])
def test_tls_needs_its_files(files: dict[str, str], name: str) -> None:
    """Each of the three is an absolute path of a file; without workers none means anything."""
    for value in ("", "relative.pem", "/nonexistent/file.pem"):
        with pytest.raises(ImproperlyConfigured, match=rf"^{name} is not the absolute path of a file"):
            read({WORKERS: "tls://h:1", **files, name: value})
    with pytest.raises(ImproperlyConfigured, match=rf"^{name} is for hash workers"):
        read({name: files[name]})
