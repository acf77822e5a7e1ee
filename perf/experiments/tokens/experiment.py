"""What a signature costs with RSA-2048 and with Ed25519, and what is saved by remembering that it was verified."""

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from joserfc import jws
from joserfc.jwk import OKPKey, RSAKey

from ironauth.tests.services import BinaryMissing, PrivateRedis
from perf import plots
from perf.experiments.tokens import token_paths
from perf.experiments.tokens.token_paths import Cost, Paths, repeated
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.rig.processes import StartError, free_port
from perf.rig.site_setup import ROOT, prepare, prepare_site, site_environment
from perf.summary import spread
from tokens.access.claims import AccessClaims

HYPOTHESIS = (
    "Ed25519 signs at least four times as fast as RSA-2048 and verifies about three times slower; its tokens are a "
    "fourth shorter. Verifying is the frequent half, so the choice would be wrong for a server that verified every "
    "request: one that finds a token it has verified before in its own memory pays at least ten times less than for "
    "the signature and claims alone, and fifty times less than for the full verification with its look at the session. "
    "A hit in Redis saves the query and not the signature, so it costs more than half of a full verification."
)
SESSIONS, QUICK_SESSIONS = 400, 100  # one token each; verified and shared within the 5 s an entry lives
SET_UP_S = 120.0  # longest that one process of token_paths may take
RSA_BITS, RSA_ALG = 2048, "RS256"
ED_ALG = "Ed25519"  # the same signature as EdDSA, without joserfc's warning about that name at each call
CHEAPER = 10.0  # how many times less an L1 hit must cost than any verification
ALGORITHMS = {RSA_ALG: "RSA-2048 (RS256)", ED_ALG: "Ed25519"}
PATHS = {
    token_paths.ENCODE: "sign an access token (`codec.encode`)",
    token_paths.DECODE: "verify signature and every claim, no session (`codec.decode`)",
    token_paths.FULL: "full verification: the same and the session's row in SQLite (`authentication.verify`)",
    token_paths.FULL_SHARED: "the same where Redis is asked first, and told afterwards",
    token_paths.L2_HIT: "hit in Redis: signature, claims, principal from there (`authentication.verify`)",
    token_paths.L1_HIT: "hit in this process (`authentication.peek`)",
    token_paths.HOT: "what the hot lane asks once it knows the token (`authentication.is_current`)",
}
_METHOD = (
    "Our access token is {bytes} bytes long. Each round is a fresh process on one core; calls that need no wait are "
    "timed in batches (median of {repeats}), the others one after the other, each with a token of its own, so that "
    "nothing is remembered."
)
_NOTES = (
    "A hit in Redis verifies signature and claims as well: what Redis holds spares the database, not the proof.",
    "CPU time is this process's with all its threads; Redis' own is not in it.",
)
_PAYLOAD = msgspec.json.encode(
    AccessClaims(
        iss="https://auth.example.com",
        sub=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
        aud="https://auth.example.com",
        client_id="ironauth",
        iat=1_800_000_000,
        exp=1_800_000_600,
        jti="A" * 22,
        sid=UUID("01890a5d-ac96-774b-bcce-b302099a8058"),
        scope="account",
        epoch=0,
        roles=(),
    )
)


class Signature(msgspec.Struct, frozen=True):
    """One algorithm in one round; times of one call, the whole token's length."""

    sign: Cost
    verify: Cost
    token_bytes: int


def measure(lab: Lab) -> Finding:
    """Time signatures here and the real paths in a process of the site's environment, interleaved."""
    with_redis, without = _site(lab)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    keys = {RSA_ALG: RSAKey.generate_key(RSA_BITS), ED_ALG: OKPKey.generate_key("Ed25519")}
    signatures: dict[str, list[Signature]] = {alg: [] for alg in keys}
    paths: list[Paths] = []
    for number in range(1, lab.rounds + 1):
        lab.say(f"round {number}")
        for alg, key in keys.items():
            signatures[alg].append(_signature(alg, key))
        paths += [_paths(environment, lab) for environment in (without, with_redis)]
    found = finding(signatures, paths)
    bars = _medians(signatures, paths)
    for suffix, title, names in (
        ("", "An access token at one request", [*PATHS.values()][1:]),
        ("signatures", "A signature", [name for name in bars if name not in PATHS.values()]),
    ):
        path = lab.plot(suffix)
        plots.bars(path, title, {name.replace("`", ""): bars[name] for name in names}, unit="µs, median")
        found.plots = [*found.plots, path.name]
    return found


def finding(signatures: Mapping[str, Sequence[Signature]], paths: Sequence[Paths]) -> Finding:
    """Say what was found; one entry for each round."""
    rows = []
    for alg, rounds in signatures.items():
        figures = [_figure([getattr(each, what).median_us for each in rounds]) for what in ("sign", "verify")]
        rows.append([ALGORITHMS[alg], *figures, f"{rounds[0].token_bytes:,}"])
    costs = _costs(paths)
    full = statistics.median(cost.median_us for cost in costs[token_paths.FULL])
    lines = [_line(name, each, full) for name, each in costs.items()]
    ours = max(each.token_bytes for each in paths)
    return Finding(
        [
            Table(
                "The same access token's claims, signed and verified by joserfc",
                ["key", "sign µs: median (low-high)", "verify µs: median (low-high)", "token, bytes"],
                rows,
            ),
            Table(
                "What a request's token costs, by how far it has to go",
                ["path", "µs: median (low-high)", "p99 µs", "CPU µs", "of a full verification"],
                lines,
            ),
        ],
        checks(signatures, paths),
        notes=[_METHOD.format(bytes=ours, repeats=token_paths.REPEATS), *_NOTES],
        data={"signatures": {alg: list(each) for alg, each in signatures.items()}, "paths": list(paths)},
        failed=sum(each.wrong for each in paths),
    )


def checks(signatures: Mapping[str, Sequence[Signature]], paths: Sequence[Paths]) -> list[Check]:
    """Hold what was measured against the hypothesis."""
    medians = _medians(signatures, paths)
    rsa, ed = (signatures[alg] for alg in (RSA_ALG, ED_ALG))
    hit = medians[PATHS[token_paths.L1_HIT]]
    return [
        Check(
            "Ed25519 signs faster than RSA-2048",
            4.0,
            _ratio(rsa, ed, "sign"),
            unit=" times",
        ),
        Check(
            "signature and claims against an L1 hit", CHEAPER, medians[PATHS[token_paths.DECODE]] / hit, unit=" times"
        ),
        Check(
            "a full verification against an L1 hit", 5 * CHEAPER, medians[PATHS[token_paths.FULL]] / hit, unit=" times"
        ),
    ]


def _ratio(above: Sequence[Signature], below: Sequence[Signature], what: str) -> float:
    pairs = zip(above, below, strict=True)
    return float(
        statistics.median(getattr(one, what).median_us / getattr(other, what).median_us for one, other in pairs)
    )


def _medians(signatures: Mapping[str, Sequence[Signature]], paths: Sequence[Paths]) -> dict[str, float]:
    """Return every figure's median over the rounds, in µs, by the name it is shown under."""
    shown = {
        f"{ALGORITHMS[alg]}: {what}": statistics.median(getattr(each, what).median_us for each in rounds)
        for alg, rounds in signatures.items()
        for what in ("sign", "verify")
    }
    costs = _costs(paths).items()
    return shown | {PATHS[name]: statistics.median(cost.median_us for cost in rounds) for name, rounds in costs}


def _costs(paths: Sequence[Paths]) -> dict[str, list[Cost]]:
    """Return the rounds' costs by path, in the order the table tells them."""
    return {name: [each.costs[name] for each in paths if name in each.costs] for name in PATHS}


def _line(name: str, costs: Sequence[Cost], full_us: float) -> list[str]:
    median, p99, cpu = (
        statistics.median(getattr(cost, what) for cost in costs) for what in ("median_us", "p99_us", "cpu_us")
    )
    figures = [_figure([cost.median_us for cost in costs]), f"{p99:,.0f}" if p99 else "", f"{cpu:,.2f}"]
    return [PATHS[name], *figures, f"{median / full_us:.4f}"]


def _figure(values: Sequence[float]) -> str:
    over = spread(values)
    return f"{over.median:,.2f} ({over.low:,.2f}-{over.high:,.2f})"


def _signature(alg: str, key: Any) -> Signature:
    """Time one algorithm with the header and claims of a real access token."""
    header = {"alg": alg, "kid": "k" * 43, "typ": "at+jwt"}
    registry = jws.JWSRegistry(algorithms=[alg])
    token = jws.serialize_compact(header, _PAYLOAD, key, registry=registry)
    return Signature(
        repeated(lambda: jws.serialize_compact(header, _PAYLOAD, key, registry=registry)),
        repeated(lambda: jws.deserialize_compact(token, key, registry=registry)),
        len(token),
    )


def _site(lab: Lab) -> tuple[dict[str, str], dict[str, str]]:
    """Make a site with sessions; return its environment with a Redis and without.

    Raises:
        StartError: Redis is not installed, or a command failed.
    """
    without = site_environment(lab.folder, port=free_port(), hash_threads=1) | {"IRONAUTH_LOG_LEVEL": "CRITICAL"}
    try:
        redis = lab.stack.enter_context(PrivateRedis(lab.folder / "redis", free_port()))
    except BinaryMissing as missing:
        raise StartError(str(missing)) from missing
    count = QUICK_SESSIONS if lab.quick else SESSIONS
    prepare_site(without, people=count)
    prepare(["-m", "perf.rig.seed", "--sessions", str(count), "--into", str(lab.folder / "sessions.json")], without)
    return {**without, "REDIS_URL": redis.url}, without


def _paths(environment: Mapping[str, str], lab: Lab) -> Paths:
    """Run ``perf.experiments.tokens.token_paths`` in an environment.

    Raises:
        StartError: it failed; the message has its output.
    """
    done = subprocess.run(  # killed by run() itself when interrupted or late
        [sys.executable, "-m", "perf.experiments.tokens.token_paths", "--sessions", str(lab.folder / "sessions.json")],
        cwd=ROOT,
        env=dict(environment),
        capture_output=True,
        timeout=SET_UP_S,
        check=False,
    )
    if done.returncode:
        raise StartError(f"tokens.token_paths ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")
    return msgspec.json.decode(done.stdout, type=Paths)
