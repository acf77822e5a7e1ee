"""The page on sizing computes what it says: its table of people follows from its constants and habits."""

import math
import re

from ironauth.tests.docs.blocks import text_of

PAGE = text_of("docs/operate/sizing.md")
DAYS, IDLE, LIVE_S, MOST_LIVE, FEED_AND_ADMIN, DATABASE_THREADS = 400, 15, 600, 50_000, 5, 8
KIB, GIB = 1_024, 1_024**3


def constants() -> dict[str, float]:
    """Return the constants of the page by their names."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d.,]+) \|", PAGE, re.MULTILINE)
    return {name: float(value.replace(",", "")) for name, value in rows}


def habits() -> list[float]:
    """Return the numbers of the second table, in its order."""
    table = PAGE.partition("| habit | value |\n|---|---|\n")[2].partition("\n\n")[0]
    return [float(line.rsplit("|", 2)[1]) for line in table.splitlines()]


def computed(people: int) -> list[float]:
    """Return the row of the last table for so many people."""
    cost, (share, signing, refreshing, asking, recording, hour, busy) = constants(), habits()
    day = people * share / 100
    sign_ins, refreshes, requests = (day * each * hour / 3_600 for each in (signing, refreshing, asking))
    spent = sign_ins * (cost["hash"] + cost["signin"]) + refreshes * (cost["refresh"] + cost["unknown"])
    cores = max(1, math.ceil((spent + requests * cost["known"]) / 1_000 / busy))
    live = min(refreshes * LIVE_S, MOST_LIVE)
    memory = cores * (cost["worker"] + live * cost["token"] / KIB + cost["hashing"])
    sessions, events = day * signing * IDLE, day * recording * DAYS
    disk = (people * cost["person"] + sessions * cost["session"] + events * cost["event"]) / GIB
    return [sign_ins, refreshes, requests, cores, memory, disk, cores * (DATABASE_THREADS + FEED_AND_ADMIN)]


def stated() -> dict[int, list[float]]:
    """Return the rows of the last table by the number of people."""
    table = PAGE.partition("| connections |\n|---|---|---|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [[float(cell.replace(",", "")) for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    return {int(people): row for people, *row in rows}


def test_the_table_follows_from_the_constants() -> None:
    """Every cell to two digits."""
    rows = stated()
    assert sorted(rows) == [10**4, 10**5, 10**6, 10**7, 10**8]
    for people, row in rows.items():
        for said, right in zip(row, computed(people), strict=True):
            assert math.isclose(said, right, rel_tol=0.05), (people, said, right)


def test_the_constants_are_all_used() -> None:
    """None is decoration, and none is missing."""
    text = PAGE.partition("## From people to requests")[2]
    assert constants().keys() == {
        "hash", "signin", "flow", "refresh", "known", "unknown", "database", "worker", "hashing", "token", "person",
        "session", "event",
    }  # fmt: skip
    assert len(habits()) == 7
    assert {"hash", "signin", "refresh", "known", "unknown", "worker", "token", "person", "session", "event"} <= set(
        re.findall(r"\w+", text)
    )


def test_memory_is_one_number_everywhere() -> None:
    """The pages and the chart count with the constants of this one."""
    worker, hashing, token = (constants()[name] for name in ("worker", "hashing", "token"))
    tokens = math.ceil(MOST_LIVE * token / KIB)
    assert f"150 + 2 \u00d7 64 = {worker + 2 * hashing:.0f} MiB" in PAGE
    said = f"[{worker:.0f} MiB](../operate/sizing.md#memory-of-a-worker) + hash threads \u00d7 {hashing:.0f} MiB"
    assert f"{said} (two threads: {worker + 2 * hashing:.0f} MiB)" in text_of("docs/security/figures.md")
    each = f"{worker + tokens:.0f} MiB for each of `workers` ({worker:.0f}, and {tokens} for 50,000 live tokens)"
    assert each in " ".join(text_of("docs/operate/kubernetes.md").split())
    chart = text_of("deploy/helm/ironauth/templates/_helpers.tpl")
    assert f"{worker:.0f} + {tokens} MiB, and a hash {hashing:.0f};" in chart
    assert f"(mul (int .Values.workers) {worker + tokens:.0f}) (mul (int .Values.hashThreads) {hashing:.0f})" in chart


def test_the_parts_of_a_worker_fit_into_what_is_counted() -> None:
    """What was measured after sign-ins, and the rest of a flood."""
    after = re.search(r"^\| after sign-ins \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    flood = re.search(r"had peaks of (\d+): two hashes of 64, and (\d+) for the rest", PAGE)
    assert after
    assert flood
    most, rest = map(int, flood.groups())
    assert most == 2 * constants()["hashing"] + rest
    measured = [*map(int, after.groups()), rest]
    assert max(measured) <= constants()["worker"] <= max(measured) * 1.1
