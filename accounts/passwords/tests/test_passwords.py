"""Password hashes: published values, Django's machinery, pepper, bounds, and the one Argon2 run of every refusal."""

import asyncio
import base64
import gc
import hmac
import json
import re
import threading
import time
import unicodedata
from pathlib import Path
from typing import Any

import argon2
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import hashers
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.passwords import formats
from accounts.passwords import hashing as passwords
from accounts.passwords.formats import argon2 as argon2_format
from accounts.passwords.formats.argon2 import IronArgon2Hasher
from accounts.passwords.hashing import Verdict
from ironauth.config.table import SETTINGS
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing.pool import hash_pool

VECTORS = json.loads((Path(__file__).parent / "vectors" / "argon2.json").read_text())["vectors"]
GOOD = [vector for vector in VECTORS if "django_encoded" in vector]
BAD = next(vector["reject"] for vector in VECTORS if "reject" in vector)
PASSWORD = "violet otter rides 9 trams"
OLD, NEW = {"old": b"o" * 32}, {"new": b"n" * 32}
RIGHT, STALE, WRONG = Verdict(ok=True, needs_rehash=False), Verdict(ok=True, needs_rehash=True), Verdict(False, False)


@pytest.fixture
def argon2_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every run of the Argon2 libraries, which are left as they are."""
    runs: list[str] = []

    def watched(library: argon2_raw.Library) -> argon2_raw.Library:
        def compute(run: argon2_raw.Run) -> bytes:
            assert threading.current_thread().name.startswith("hash"), "Argon2 ran outside the hash pool"
            made = library.compute(run)  # what is refused while its parameters are looked at is no run
            runs.append(f"t={run.time_cost},m={run.memory_kib}")
            return made

        return library._replace(compute=compute)

    found = argon2_raw.choice()
    monkeypatch.setattr(argon2_raw, "choice", lambda: found._replace(library=watched(found.library)))
    monkeypatch.setattr(argon2_raw, "CFFI", watched(argon2_raw.CFFI))
    return runs


@pytest.mark.parametrize("vector", GOOD, ids=[vector["id"] for vector in GOOD])
def test_published_hashes_verify_in_django_form(vector: dict[str, Any]) -> None:
    """Every Argon2id value of the reference implementation verifies, and with another password it does not."""
    assert hashers.check_password(vector["password"], vector["django_encoded"])
    assert not hashers.check_password(vector["password"] + "x", vector["django_encoded"])


@pytest.mark.parametrize("phc", BAD)
def test_malformed_hashes_are_refused_after_one_run(phc: str, argon2_runs: list[str]) -> None:
    """A hash the reference implementation rejects is a refusal, not a crash, and takes as long as any other."""
    assert async_to_sync(passwords.verify_password)("password", f"argon2{phc}") == WRONG
    assert len(argon2_runs) == 1


def test_stored_form_is_what_django_reads(settings: Settings) -> None:
    """A new hash names its costs from settings, carries a 16-byte salt, and Django's tools recognise it."""
    settings.IRONAUTH_ARGON2_TIME_COST, settings.IRONAUTH_ARGON2_MEMORY_KIB = 2, 512
    encoded = hashers.make_password(PASSWORD)
    match = re.fullmatch(r"argon2\$argon2id\$v=19\$m=512,t=2,p=1\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)", encoded)
    assert match
    assert len(base64.b64decode(match[1] + "==")) == 16
    assert len(base64.b64decode(match[2] + "=")) == 32
    hasher = hashers.identify_hasher(encoded)
    assert isinstance(hasher, IronArgon2Hasher)
    assert hasher.decode(encoded)["memory_cost"] == 512
    summary = hasher.safe_summary(encoded)
    assert summary["pepper"] == "none"
    assert match[2] not in str(summary)
    assert hashers.Argon2PasswordHasher().verify(PASSWORD, encoded), "Django alone must be able to verify it too"


def test_equal_passwords_get_different_salts() -> None:
    """A thousand hashes of one password have a thousand salts (ASVS 11.4.2)."""
    assert len({hashers.make_password(PASSWORD).split("$")[4] for _ in range(1000)}) == 1000


def test_defaults_are_the_stated_costs() -> None:
    """Without settings of its own a deployment gets t=3, m=64 MiB, p=1 (RFC 9106 §4, more passes)."""
    stated = {"IRONAUTH_ARGON2_TIME_COST": 3, "IRONAUTH_ARGON2_MEMORY_KIB": 65_536, "IRONAUTH_ARGON2_PARALLELISM": 1}
    assert {name: SETTINGS[name].default for name in stated} == stated


def test_hashes_of_djangos_own_hashers_verify_and_are_to_be_replaced() -> None:
    """What a Django product brings along works: Argon2 with Django's costs, PBKDF2, scrypt."""
    for hasher in (hashers.Argon2PasswordHasher(), hashers.PBKDF2PasswordHasher(), hashers.ScryptPasswordHasher()):
        encoded = hasher.encode(PASSWORD, "somesaltsomesaltsomesa")
        assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == STALE
        assert async_to_sync(passwords.verify_password)("wrong", encoded) == WRONG


def test_changed_costs_ask_for_a_new_hash(settings: Settings) -> None:
    """A hash of other costs, in either direction, verifies and is to be replaced; one of the same costs is not."""
    encoded = hashers.make_password(PASSWORD)
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == RIGHT
    settings.IRONAUTH_ARGON2_TIME_COST = 2
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == STALE
    newer = hashers.make_password(PASSWORD)
    settings.IRONAUTH_ARGON2_TIME_COST = 1
    assert async_to_sync(passwords.verify_password)(PASSWORD, newer) == STALE


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({}, {}, RIGHT),
        ({}, NEW, STALE),
        (NEW, NEW, RIGHT),
        (OLD, NEW | OLD, STALE),
        (OLD, OLD | NEW, RIGHT),
        (OLD, NEW, WRONG),
        (OLD, {}, WRONG),
    ],
    ids=["none", "added", "kept", "rotated", "next one prepared", "removed", "all removed"],
)
def test_pepper_in_every_combination(
    settings: Settings, before: dict[str, bytes], after: dict[str, bytes], verdict: Verdict, argon2_runs: list[str]
) -> None:
    """Adding and rotating a pepper keeps passwords working and asks for a new hash; without it a hash is dead."""
    settings.IRONAUTH_PASSWORD_PEPPERS = before
    encoded = hashers.make_password(PASSWORD)
    assert argon2_format.read(encoded).pepper_id == next(iter(before), None)  # type: ignore[union-attr]  # well-formed
    settings.IRONAUTH_PASSWORD_PEPPERS = after
    argon2_runs.clear()
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == verdict
    assert len(argon2_runs) == 1
    assert async_to_sync(passwords.verify_password)("wrong", encoded) == WRONG
    hasher = hashers.identify_hasher(encoded)
    assert hasher.must_update(encoded) is (verdict != RIGHT)
    assert hasher.safe_summary(encoded)["pepper"] == next(iter(before), "none")


def test_pepper_is_hmac_sha256_before_argon2id(settings: Settings) -> None:
    """The peppered form is exactly Argon2id over HMAC-SHA-256(pepper, NFC password): another program can check it."""
    settings.IRONAUTH_PASSWORD_PEPPERS = NEW
    encoded = hashers.make_password("e\u0301" + PASSWORD)
    prefix, mark, phc = encoded.split("$", 2)
    assert (prefix, mark) == ("argon2", "pepper=new")
    keyed = hmac.digest(NEW["new"], ("\u00e9" + PASSWORD).encode(), "sha256")
    assert argon2.PasswordHasher().verify(f"${phc}", keyed)


def test_longest_stored_form_fits_the_column(settings: Settings) -> None:
    """The longest key id and the highest costs stay below the column's 256 characters."""
    settings.IRONAUTH_PASSWORD_PEPPERS = {"k" * 16: b"x" * 32}
    costliest = hashers.make_password(PASSWORD).replace("m=256,t=1,p=1", "m=1048576,t=20,p=16")
    assert len(costliest) < formats.MAX_ENCODED_LENGTH


@pytest.mark.parametrize(
    "costs",
    ["m=1048577,t=1,p=1", "m=256,t=21,p=1", "m=256,t=1,p=17", "m=7,t=1,p=1", "m=256,t=0,p=1", "m=999999999,t=9,p=1"],
)
def test_planted_hashes_cannot_exhaust_the_server(costs: str, argon2_runs: list[str]) -> None:
    """A stored hash that asks for more than 1 GiB, 20 passes or 16 lanes is refused without being run."""
    encoded = hashers.make_password(PASSWORD).replace("m=256,t=1,p=1", costs)
    argon2_runs.clear()
    began = time.thread_time()
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == WRONG
    assert len(argon2_runs) == 1
    assert time.thread_time() - began < 1


def test_canonically_equal_passwords_are_one_password() -> None:
    """However a keyboard composes an accent, the password is the same; compatibility variants stay different."""
    composed, decomposed = "p\u00e4ssw\u00f6rter s\u00edn fin", "pa\u0308sswo\u0308rter si\u0301n fin"
    assert hashers.check_password(decomposed, hashers.make_password(composed))
    assert hashers.check_password(composed, hashers.make_password(decomposed))
    assert not hashers.check_password("office", hashers.make_password("o\ufb03ce"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x" * 72 + "a", "x" * 72 + "b"),
        (" lead", "lead"),
        ("trail ", "trail"),
        ("a\x00b", "a\x00c"),
        ("a\x00", "a"),
        ("Case", "case"),
    ],
)
def test_nothing_is_cut_off_or_folded(one: str, other: str) -> None:
    """Length beyond bcrypt's 72 bytes, spaces, NUL and case all count."""
    encoded = hashers.make_password(one)
    assert hashers.check_password(one, encoded)
    assert not hashers.check_password(other, encoded)


@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.text(max_size=1024).filter(lambda text: len(unicodedata.normalize("NFC", text)) <= 1024))
def test_any_password_round_trips(text: str) -> None:
    """Any text of at most 1,024 code points verifies, and so do its canonically equal spellings; one more does not."""
    encoded = hashers.make_password(text)
    assert async_to_sync(passwords.verify_password)(text, encoded).ok
    assert async_to_sync(passwords.verify_password)(unicodedata.normalize("NFD", text), encoded).ok
    assert not async_to_sync(passwords.verify_password)(text + "x", encoded).ok


def test_1024_code_points_are_hashed_and_1025_are_not(argon2_runs: list[str]) -> None:
    """The limit holds on both sides, and what exceeds it is never hashed itself."""
    text = "".join(chr(0x4E00 + i) for i in range(1024))
    encoded = hashers.make_password(text)
    assert hashers.check_password(text, encoded)
    with pytest.raises(ValueError, match="at most 1024 characters"):
        hashers.make_password(text + "x")
    argon2_runs.clear()
    began = time.thread_time()
    assert async_to_sync(passwords.verify_password)(text * 10_000, encoded) == WRONG
    assert len(argon2_runs) == 1
    assert time.thread_time() - began < 1


@given(
    st.from_regex(
        r"argon2\$(pepper=[a-z0-9]{0,20}\$)?argon2(id|i|d|x)\$[v=169]{0,5}\$[mtp=,0-9]{0,24}\$[A-Za-z0-9+/=$]{0,60}"
    )
)
def test_any_stored_text_is_an_answer(encoded: str) -> None:
    """Whatever a row holds in place of a hash, the password is wrong and nothing fails."""
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == WRONG


@pytest.mark.parametrize("kind", ["unknown", "wrong", "unusable", "garbage", "empty", "other algorithm", "too long"])
async def test_every_refusal_costs_exactly_one_run(kind: str, argon2_runs: list[str]) -> None:
    """Whatever the reason of a refusal, Argon2 runs once, on the pool, in one job."""
    known = await passwords.hash_password(PASSWORD)
    stored = {
        "unknown": None,
        "unusable": hashers.make_password(None),
        "garbage": "argon2$what",
        "empty": "",
        "other algorithm": "md5$salt$5f4dcc3b5aa765d61d8327deb882cf99",
    }
    argon2_runs.clear()
    jobs = hash_pool().stats().completed
    given = "y" * 1025 if kind == "too long" else "not the password"
    assert await passwords.verify_password(given, stored.get(kind, known)) == WRONG
    assert len(argon2_runs) == 1
    assert hash_pool().stats().completed == jobs + 1


async def test_wrong_password_of_a_cheap_old_hash_waits_as_long_as_argon2(settings: Settings) -> None:
    """A migrated hash that verifies in no time does not give its account away by a quick refusal."""
    settings.IRONAUTH_ARGON2_TIME_COST, settings.IRONAUTH_ARGON2_MEMORY_KIB = 20, 16_384
    settings.IRONAUTH_HASH_THREADS = 1
    encoded = hashers.PBKDF2PasswordHasher().encode(PASSWORD, "somesalt", iterations=1)
    await passwords.hash_password(PASSWORD)
    usual_s = hash_pool().stats().mean_hash_s
    began = time.monotonic()
    assert await passwords.verify_password("wrong", encoded) == WRONG
    assert time.monotonic() - began >= 0.8 * usual_s


def test_unreadable_migrated_hashes_are_refused(argon2_runs: list[str]) -> None:
    """A broken hash of an old hasher, or one whose library is not installed, is a refusal and not a crash."""
    for encoded in ("pbkdf2_sha256$notanumber$salt$hash", "scrypt$1$2", "bcrypt_sha256$$2b$12$abc"):
        argon2_runs.clear()
        assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == WRONG
        assert len(argon2_runs) == 1


async def test_hashing_never_runs_on_an_event_loop(argon2_runs: list[str]) -> None:
    """Django's blocking functions refuse to run on a loop; its async ones and ours reach the pool (lessons 5.4)."""
    with pytest.raises(RuntimeError, match="block this event loop"):
        hashers.make_password(PASSWORD)
    encoded = await passwords.hash_password(PASSWORD)
    assert await hashers.acheck_password(PASSWORD, encoded)
    assert await sync_to_async(hashers.check_password)(PASSWORD, encoded)
    assert len(argon2_runs) == 3


async def test_loop_stays_responsive_during_a_storm(settings: Settings) -> None:
    """While hashes queue up the event loop goes on turning, and computes none of them itself."""
    settings.IRONAUTH_ARGON2_TIME_COST, settings.IRONAUTH_ARGON2_MEMORY_KIB = 3, 16_384
    settings.IRONAUTH_HASH_MAX_WAIT_S = 3_600.0
    began = time.thread_time()
    argon2.low_level.hash_secret_raw(b"p" * 16, b"s" * 16, 3, 16_384, 1, 32, argon2.Type.ID)
    a_hash_s = time.thread_time() - began
    await passwords.hash_password(PASSWORD)  # what is made the first time
    storm = asyncio.gather(*(passwords.hash_password(PASSWORD) for _ in range(16)))
    turns, held_up_s = 0, 0.0
    gc.disable()  # what it takes in a process of thousands of tests belongs to no hash
    try:
        last = time.thread_time()  # of this thread alone: one that waits for a processor holds nothing up
        while not storm.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            turns += 1
            if now - last > a_hash_s / 2:
                held_up_s += now - last
            last = now
    finally:
        gc.enable()
    await storm
    assert turns > 1000
    assert held_up_s < 4 * a_hash_s  # of sixteen


def test_missing_memory_is_not_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no memory for a run the caller hears "overloaded", for a right password too."""
    encoded = hashers.make_password(PASSWORD)

    def refuse(*_args: object, **_kwargs: object) -> bytes:
        raise MemoryError

    with monkeypatch.context() as short:
        short.setattr(argon2_raw, "compute", refuse)
        with pytest.raises(Overloaded):
            async_to_sync(passwords.verify_password)(PASSWORD, encoded)
        with pytest.raises(Overloaded):
            hashers.make_password(PASSWORD)
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded) == RIGHT


@pytest.mark.parametrize("version", [16, 19])
@pytest.mark.parametrize("variety", list(argon2.low_level.Type))
def test_every_variety_and_version_of_the_library_verifies(variety: argon2.low_level.Type, version: int) -> None:
    """What the library writes verifies here, and nobody else's password does; hashes of 1.0 do not name a version."""
    phc = argon2.low_level.hash_secret(PASSWORD.encode(), b"saltsalt" * 2, 1, 64, 2, 24, variety, version).decode()
    for spelled in {phc, phc.replace("v=16$", "")}:
        assert async_to_sync(passwords.verify_password)(PASSWORD, f"argon2{spelled}").ok
        assert not async_to_sync(passwords.verify_password)("wrong", f"argon2{spelled}").ok


@pytest.mark.parametrize("version", [-1, 0, 15, 17, 18, 20, 2**32, 2**32 + 19])
def test_a_version_that_never_was_is_refused_after_one_run(version: int, argon2_runs: list[str]) -> None:
    """It never gets as far as Argon2, whose field for it holds 32 bits without a sign: no crash, and no less time."""
    encoded = hashers.make_password(PASSWORD).replace("v=19", f"v={version}")
    argon2_runs.clear()
    assert not hashers.check_password(PASSWORD, encoded)
    assert len(argon2_runs) == 1


@pytest.mark.parametrize(
    "change", [("m=256", "m=0256"), ("m=256,t=1", "t=1,m=256"), ("v=19", "v=+19"), ("=1$", "=1$ ")]
)
def test_a_hash_has_one_spelling(change: tuple[str, str], argon2_runs: list[str]) -> None:
    """Costs in another order, zeros in front, signs and spaces are malformed, as they are to the reference."""
    encoded = hashers.make_password(PASSWORD)
    argon2_runs.clear()
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded).ok
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded.replace(*change)) == WRONG
    assert async_to_sync(passwords.verify_password)(PASSWORD, encoded + "A") == WRONG
    assert len(argon2_runs) == 3


async def test_full_pool_is_not_a_wrong_password(settings: Settings) -> None:
    """When the pool sheds load the caller hears "overloaded", on the async and on the blocking face."""
    settings.IRONAUTH_HASH_MAX_WAIT_S, settings.IRONAUTH_HASH_THREADS = 0.2, 1
    encoded = await passwords.hash_password(PASSWORD)
    release = threading.Event()
    busy = asyncio.ensure_future(hash_pool().run(release.wait))
    await asyncio.sleep(0.05)  # the only thread is taken now
    try:
        with pytest.raises(Overloaded):
            await passwords.verify_password(PASSWORD, encoded)
        with pytest.raises(Overloaded):
            await asyncio.to_thread(async_to_sync(passwords.verify_password), PASSWORD, encoded)
    finally:
        release.set()
        await busy
