"""Limits that are promised have their values here as literals; no test checks a limit against itself.

A test that imports a limit goes on passing when somebody changes it. So every number that a test takes from the product
is one of two kinds: promised, with its value below, or tuning, which a test may follow.
"""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from django.conf import settings

from ironauth.tests.test_house_rules import python_files

ROOT = Path(settings.BASE_DIR)
#: A change of one of these is a change of what README.md, SECURITY.md or the API's description says: change both.
PROMISED: Final[dict[str, float]] = {
    "accounts.admin_sign_in.CODE_S": 300,
    "accounts.admin_sign_in.ENROL_S": 900,
    "accounts.audit.MAX_DETAIL": 255,
    "accounts.audit.MAX_NAMES": 100,
    "accounts.audit_triggers.LOCKED_DAYS": 29,
    "accounts.breached_service.LONGEST_ANSWER": 262_144,
    "accounts.emails.MAX_KEY_LENGTH": 320,
    "accounts.even_time.REFUSAL_STEP_S": 0.01,
    "accounts.even_time.STEP_S": 0.1,
    "accounts.export.MOST_ROWS": 5_000,
    "accounts.failure_shares.KNOWN_ADDRESSES": 20,
    "accounts.failure_shares.KNOWN_BROWSERS": 20,
    "accounts.failure_shares.SIGNED_IN": 20,
    "accounts.failure_shares.STRANGERS": 40,
    "accounts.mfa.challenges.LIFE_S": 300,
    "accounts.outgoing_mail.GIVE_UP_S": 86_400,
    "accounts.outgoing_mail.LEASE_S": 60,
    "accounts.passwords.MAX_ENCODED_LENGTH": 256,
    "accounts.passwords.MAX_LENGTH": 1_024,
    "accounts.throttling.KNOWN_S": 2_592_000,
    "ironauth.http_timing.HEAD_TIMEOUT_S": 10.0,
    "ironauth.infrastructure.admin_session_store.KEY_CHARACTERS": 40,
    "ironauth.infrastructure.argon2_bounds.MAX_LANES": 16,
    "ironauth.infrastructure.argon2_bounds.MAX_MEMORY_KIB": 1_048_576,
    "ironauth.infrastructure.argon2_bounds.MAX_TIME": 20,
    "ironauth.infrastructure.body_budget.BUDGET_BYTES": 33_554_432,
    "ironauth.infrastructure.failure_count.FREE_FAILURES": 10,
    "ironauth.infrastructure.failure_count.KEEP_S": 31_536_000,
    "ironauth.infrastructure.failure_count.MAX_FAILURES": 100,
    "ironauth.infrastructure.guard.API_BODY_BYTES": 65_536,
    "ironauth.infrastructure.guard.BODY_TIMEOUT_S": 10.0,
    "ironauth.infrastructure.guard.MAX_HEADER_BYTES": 16_384,
    "ironauth.infrastructure.guard.MAX_HEADER_FIELDS": 100,
    "ironauth.infrastructure.guard.MAX_TARGET_BYTES": 8_192,
    "ironauth.infrastructure.guard.PAGE_BODY_BYTES": 1_048_576,
    "ironauth.infrastructure.hot_lane.MAX_ANSWERS": 12,
    "ironauth.infrastructure.hot_lane.MAX_QUERY": 256,
    "ironauth.infrastructure.job_queues.MOST_OF_ONE_OWNER": 4,
    "ironauth.infrastructure.sealing.NONCE_BYTES": 12,
    "ironauth.infrastructure.stateless_token.MAC_BYTES": 32,
    "ironauth.infrastructure.strict_json.MAX_DEPTH": 32,
    "ironauth.server.MAX_REQUESTS": 10_000,
    "tokens.codec.CLOCK_LEEWAY_S": 60,
    "tokens.codec.MAX_TOKEN_BYTES": 4_096,
    "tokens.key_rotation.PUBLISHED_BY_ALL_S": 5,
    "tokens.key_store.MAX_AGE_S": 5.0,
    "tokens.key_store.MIN_RELOAD_GAP_S": 1.0,
    "tokens.known_devices.MOST": 20,
    "tokens.mfa_token.LIFE_S": 300,
    "tokens.oauth.client_assertion.MAX_LIFE_S": 3_600,
    "tokens.oauth.client_keys.MAX_CHARACTERS": 4_096,
    "tokens.oauth.client_keys.MAX_KEYS": 10,
    "tokens.oauth.codes.CODE_BYTES": 32,
    "tokens.oauth.codes.LIFE_S": 60,
    "tokens.oauth.device_units.LIFE_S": 600,
    "tokens.oauth.dpop.LIFE_S": 60,
    "tokens.oauth.endpoint.MAX_PARAMETERS": 100,
    "tokens.oauth.journeys.BROWSER_BYTES": 32,
    "tokens.oauth.journeys.LIFE_S": 1_800,
    "tokens.oauth.leftovers.KEEP_S": 3_600,
    "tokens.oauth.logout_delivery.LONGEST_ANSWER": 16_384,
    "tokens.oauth.logout_notices.LEASE_S": 60,
    "tokens.oauth.logout_notices.LONGEST_RETRY_S": 3_600,
    "tokens.oauth.models.URI_CHARACTERS": 2_000,
    "tokens.oauth.token_exchange.MAX_ACTORS": 4,
    "tokens.refresh_token.SECRET_BYTES": 32,
    "tokens.refresh_token.TOKEN_CHARACTERS": 70,
    "tokens.transport.DEVICE_BYTES": 32,
}
#: Sizes and pauses that nobody was promised: a test needs to know them to go to their boundary.
TUNING: Final = frozenset(
    {
        "accounts.audit_counts.FRESH_S",
        "accounts.breached_file.LONGEST_LINE",
        "accounts.breached_passwords.RECORD_BYTES",
        "accounts.breached_service.THREADS",
        "accounts.email_tokens.ID_BYTES",
        "accounts.even_time.TIMER_S",
        "accounts.outgoing_mail.MAX_DUE",
        "ironauth.http_cycle.JOINED_BYTES",
        "ironauth.http_cycle.MAX_KEPT",
        "ironauth.http_cycle.MOST_WAITING",
        "ironauth.http_writes.MOST_TOGETHER",
        "ironauth.infrastructure.breaker.PAUSE_S",
        "ironauth.infrastructure.broadcast.AT_ONCE",
        "ironauth.infrastructure.cache.MAX_ABSENT",
        "ironauth.infrastructure.cookie_reader.LONGEST_REMEMBERED",
        "ironauth.infrastructure.cookie_reader.MOST_REMEMBERED",
        "ironauth.infrastructure.database_outage.QUIET_S",
        "ironauth.infrastructure.hash_pool.CAUTION",
        "ironauth.infrastructure.hash_pool.FIRST_GUESS_S",
        "ironauth.infrastructure.hash_pool.WEAKEST_NICE",
        "ironauth.infrastructure.hash_worker_protocol.HEADER_BYTES",
        "ironauth.infrastructure.history.GAP_MIN_S",
        "ironauth.infrastructure.history.MAX_GAPS",
        "ironauth.infrastructure.host_check.MAX_REMEMBERED",
        "ironauth.infrastructure.hot_lane.LOOKED_AT",
        "ironauth.infrastructure.hot_lane.MAX_SHARED",
        "ironauth.infrastructure.l1.RECENT_S",
        "ironauth.infrastructure.l1.SWEPT",
        "ironauth.infrastructure.l1.UNKNOWN_ID",
        "ironauth.infrastructure.lean_request.MAX_NAMES",
        "ironauth.infrastructure.log_pipe.MAX_WAITING",
        "ironauth.infrastructure.metrics_sampling.TICK_S",
        "ironauth.infrastructure.metrics_slots.NAMES_BYTES",
        "ironauth.infrastructure.not_found.LONGEST_ACCEPT",
        "ironauth.infrastructure.queue_delivery.POLL_S",
        "ironauth.infrastructure.queue_delivery.THREADS",
        "ironauth.infrastructure.reader.READER_GONE",
        "ironauth.pages.PUBLIC_FOR_S",
        "ironauth.polite_server.END_S",
        "ironauth.polite_server.FAREWELL_S",
        "ironauth.server.GRACEFUL_S",
        "ironauth.server.KEEP_ALIVE_S",
        "ironauth.server.RESERVED_FILES",
        "ironauth.server_processes.HANG_UP_S",
        "tokens.oauth.first_page.PAGES",
    }
)
_CONSTANT: Final = re.compile(r"_?[A-Z][A-Z0-9_]+")


@pytest.mark.parametrize("limit", PROMISED)
def test_the_limit_is_what_was_promised(limit: str) -> None:
    """The product has the value that is promised, and no other."""
    module, _, name = limit.rpartition(".")
    assert getattr(import_module(module), name) == PROMISED[limit]


def test_no_test_imports_a_limit_that_is_not_written_down_here() -> None:
    """A number that a test takes from the product is in one of the two lists; in the first unless it is mere tuning."""
    files = {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in python_files()}
    ours = {name: tree for name, tree in files.items() if name.startswith(("accounts/", "tokens/", "ironauth/"))}
    numbers = {
        f"{name[:-3].replace('/', '.')}.{constant}"
        for name, tree in ours.items()
        if "/tests/" not in name
        for constant in _numbers(tree)
    }
    imported = {
        limit: name for name, tree in ours.items() if "/tests/" in name for limit in _used(tree) if limit in numbers
    }
    assert len(imported) > 50, "the reader of imports reads nothing"
    unlisted = {limit: name for limit, name in imported.items() if limit not in PROMISED.keys() | TUNING}
    assert not unlisted, f"write them into PROMISED with their values, or into TUNING: {unlisted}"


def _numbers(tree: ast.Module) -> set[str]:
    """Return the names of the module's constants that are worked out from numbers alone."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            parts = list(ast.walk(node.value))
            simple = all(isinstance(part, ast.Constant | ast.BinOp | ast.operator | ast.UnaryOp) for part in parts)
            values = [part.value for part in parts if isinstance(part, ast.Constant)]
            if simple and values and all(type(value) in (int, float) for value in values):
                found |= {target.id} if isinstance(target, ast.Name) and _CONSTANT.fullmatch(target.id) else set()
    return found


def _used(tree: ast.Module) -> set[str]:
    """Return the constants that a test takes from other modules, by their full names."""
    modules = {}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                modules[one.asname or one.name] = f"{node.module}.{one.name}"
                found |= {f"{node.module}.{one.name}"} if _CONSTANT.fullmatch(one.name) else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add(f"{modules[node.value.id]}.{node.attr}")
    return found
