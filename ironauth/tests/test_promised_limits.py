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

from ironauth.config.table import SETTINGS
from ironauth.tests.test_house_rules import python_files

ROOT = Path(settings.BASE_DIR)
#: A change of one of these is a change of what docs/security/figures.md, SECURITY.md or the API's description says.
PROMISED: Final[dict[str, float]] = {
    "ironauth.infrastructure.db.replica.BEHIND_S": 1.0,
    "ironauth.infrastructure.db.replica.REST_S": 5.0,
    "accounts.admin.access.sign_in.CODE_S": 300,
    "accounts.admin.access.sign_in.ENROL_S": 900,
    "accounts.audit.recording.MAX_DETAIL": 255,
    "accounts.audit.recording.MAX_NAMES": 100,
    "accounts.audit.triggers.LOCKED_DAYS": 29,
    "accounts.outbox.tokens.CODE_TRIES": 5,
    "accounts.outbox.tokens.SIGN_IN_MIN": 10,
    "accounts.passwords.breached_service.LONGEST_ANSWER": 262_144,
    "accounts.email_address.MAX_KEY_LENGTH": 320,
    "accounts.mfa.recovery.brought.LEAST_CHARACTERS": 8,
    "accounts.mfa.recovery.brought.MOST": 32,
    "accounts.mfa.recovery.brought.UNGUESSED_CHARACTERS": 12,
    "accounts.names.MAX_LENGTH": 150,
    "accounts.profile.ZONE_CHARACTERS": 64,
    "tokens.clients.documents.fetching.LONGEST": 5_120,
    "tokens.clients.fetched.fetching.LIMIT_S": 5.0,
    "tokens.clients.fetched.fetching.LEAST_S": 60,
    "tokens.clients.fetched.fetching.MOST_S": 86_400,
    "tokens.clients.fetched.keys.ANEW_S": 60.0,
    "tokens.clients.fetched.logos.LONGEST": 65_536,
    "ironauth.infrastructure.http.second_clicks.WITHIN_S": 10,
    "ironauth.infrastructure.outbound.public_addresses.MOST_ADDRESSES": 4,
    "tokens.clients.fetched.pictures.MOST_PIXELS": 1_024,
    "tokens.details.lists.MAX_BYTES": 1_000,
    "tokens.details.lists.MOST": 5,
    "tokens.details.members.MAX_TEXT": 200,
    "tokens.details.members.MAX_TEXTS": 10,
    "tokens.details.members.MOST_MEMBERS": 20,
    "tokens.details.rules.MOST_TYPES": 100,
    "tokens.resources.identifiers.MAX_ASKED": 5,
    "tokens.resources.identifiers.MAX_CHARACTERS": 200,
    "tokens.sessions.acting.rules.ACTING_S": 1_800,
    "ironauth.infrastructure.api.deprecation.SHORTEST_DAYS": 365,
    "ironauth.infrastructure.api.idempotency.LONGEST": 255,
    "ironauth.infrastructure.db.idempotency.KEEP_S": 86_400,
    "ironauth.infrastructure.db.idempotency.LEASE_S": 60,
    "ironauth.infrastructure.core.constant_time.REFUSAL_STEP_S": 0.01,
    "ironauth.infrastructure.core.constant_time.STEP_S": 0.1,
    "accounts.privacy.export.MOST_ROWS": 5_000,
    "accounts.federation.models.SUBJECT_CHARACTERS": 255,
    "accounts.federation.models.URI_CHARACTERS": 2_000,
    "accounts.federation.kept_tokens.LONGEST": 16_384,
    "tokens.upstream.kept.services.EARLY_S": 60,
    "tokens.upstream.kept.units.LEASE_S": 15,
    "accounts.lists.MAX_PAGE_SIZE": 200,
    "tokens.upstream.administration.sign_in_trial.LIFE_S": 600,
    "accounts.lazy_migration.asking.MOST_WAITING": 64,
    "accounts.lazy_migration.asking.THREADS": 8,
    "accounts.lazy_migration.conversation.LONGEST": 65_536,
    "accounts.organizations.rules.MOST_MEMBERS": 1_000,
    "accounts.organizations.rules.MOST_OF_A_PERSON": 100,
    "accounts.organizations.rules.MOST_OWNED": 20,
    "accounts.organizations.rules.MOST_WAITING": 100,
    "accounts.lockout.throttling.KNOWN_ADDRESSES": 20,
    "accounts.lockout.throttling.KNOWN_BROWSERS": 20,
    "accounts.lockout.throttling.SIGNED_IN": 20,
    "accounts.lockout.throttling.STRANGERS": 40,
    "accounts.mfa.kept_devices.units.MOST": 20,
    "accounts.mfa.passkeys.challenges.LIFE_S": 300,
    "accounts.users.step_up.RECENT_S": 600,
    "accounts.outbox.queue.FIRST_RETRY_S": 15,
    "accounts.passwords.old_system.RESERVE_S": 0.5,
    "accounts.passwords.formats.MAX_ENCODED_LENGTH": 256,
    "accounts.passwords.formats.MAX_LENGTH": 1_024,
    "accounts.passwords.formats.bcrypt.MAX_ROUNDS": 14,
    "accounts.passwords.formats.pbkdf2.MAX_WORK": 2_000_000,
    "accounts.passwords.formats.scrypt.MAX_LANES": 8,
    "accounts.lockout.throttling.KNOWN_S": 2_592_000,
    "ironauth.server.connection.HEAD_TIMEOUT_S": 10.0,
    "ironauth.infrastructure.admin.session_store.KEY_CHARACTERS": 40,
    "ironauth.infrastructure.hashing.argon2_bounds.MAX_LANES": 16,
    "ironauth.infrastructure.hashing.argon2_bounds.MAX_MEMORY_KIB": 1_048_576,
    "ironauth.infrastructure.hashing.argon2_bounds.MAX_TIME": 20,
    "ironauth.infrastructure.db.outbox.GIVE_UP_S": 86_400,
    "ironauth.infrastructure.db.silence.SILENT_S": 10.0,
    "ironauth.infrastructure.db.outbox.LEASE_S": 60,
    "ironauth.infrastructure.db.outbox.LONGEST_RETRY_S": 3_600,
    "ironauth.config.table.branding.MOST_MAIL_LOGO_BYTES": 100_000,
    "ironauth.infrastructure.http.brand.LEAST_CONTRAST": 4.5,
    "ironauth.infrastructure.http.guard.BUDGET_BYTES": 33_554_432,
    "ironauth.infrastructure.ratelimit.lockout.FREE_FAILURES": 10,
    "ironauth.infrastructure.ratelimit.lockout.KEEP_S": 31_536_000,
    "ironauth.infrastructure.ratelimit.lockout.MAX_FAILURES": 100,
    "ironauth.infrastructure.http.guard.API_BODY_BYTES": 65_536,
    "ironauth.infrastructure.http.guard.BODY_TIMEOUT_S": 10.0,
    "ironauth.infrastructure.http.guard.MAX_HEADER_BYTES": 16_384,
    "ironauth.infrastructure.http.guard.MAX_HEADER_FIELDS": 100,
    "ironauth.infrastructure.http.guard.MAX_TARGET_BYTES": 8_192,
    "ironauth.infrastructure.http.guard.PAGE_BODY_BYTES": 1_048_576,
    "ironauth.infrastructure.http.hot_lane.MAX_ANSWERS": 12,
    "ironauth.infrastructure.http.hot_lane.MAX_QUERY": 256,
    "tokens.oauth.token.introspection.MAX_BODY": 6_144,
    "tokens.oauth.token.introspection.MAX_QUESTIONS": 8,
    "ironauth.infrastructure.threads.job_queues.MOST_OF_ONE_OWNER": 4,
    "ironauth.infrastructure.crypto.sealing.NONCE_BYTES": 12,
    "ironauth.infrastructure.crypto.master_keys.MAC_BYTES": 32,
    "ironauth.infrastructure.core.strict_json.MAX_DEPTH": 32,
    "ironauth.server.server.MAX_REQUESTS": 10_000,
    "tokens.access.codec.CLOCK_LEEWAY_S": 60,
    "tokens.upstream.id_token.LEEWAY_S": 60,
    "tokens.access.codec.MAX_TOKEN_BYTES": 4_096,
    "tokens.keys.units.PUBLISHED_BY_ALL_S": 5,
    "tokens.keys.store.MAX_AGE_S": 5.0,
    "tokens.keys.store.MIN_RELOAD_GAP_S": 1.0,
    "tokens.sessions.known_devices.MOST": 20,
    "tokens.sign_in.mfa_token.LIFE_S": 300,
    "tokens.clients.assertion.MAX_LIFE_S": 3_600,
    "tokens.clients.keys.MAX_CHARACTERS": 4_096,
    "tokens.clients.keys.MAX_KEYS": 10,
    "tokens.oauth.codes.CODE_BYTES": 32,
    "tokens.oauth.codes.LIFE_S": 60,
    "tokens.oauth.device.units.LIFE_S": 600,
    "tokens.clients.dpop.LIFE_S": 60,
    "tokens.clients.certificates.presented.MAX_CHARACTERS": 8_192,
    "tokens.oauth.endpoint.MAX_PARAMETERS": 100,
    "tokens.oauth.endpoint.MAX_BYTES": 8_000,
    "tokens.oauth.signed.request_objects.MAX_LIFE_S": 3_600,
    "tokens.oauth.signed.responses.LIFE_S": 600,
    "tokens.oauth.authorize.state.BROWSER_BYTES": 32,
    "tokens.oauth.authorize.state.LIFE_S": 1_800,
    "tokens.oauth.expiry.KEEP_S": 3_600,
    "tokens.oauth.logout.delivery.LONGEST_ANSWER": 16_384,
    "tokens.clients.models.URI_CHARACTERS": 2_000,
    "tokens.oauth.token.exchange.MAX_ACTORS": 4,
    "tokens.sessions.refresh_token.SECRET_BYTES": 32,
    "tokens.sessions.refresh_token.TOKEN_CHARACTERS": 70,
    "tokens.sessions.transport.DEVICE_BYTES": 32,
}
#: Sizes and pauses that nobody was promised: a test needs to know them to go to their boundary.
TUNING: Final = frozenset(
    {
        "ironauth.infrastructure.db.outbox.JITTER",
        "tokens.oauth.logout.delivery.STOP_S",
        "tokens.oauth.logout.units.FIRST_RETRY_S",
        "ironauth.health_probe.PORT",
        "accounts.audit.partitions.EVENT_BYTES",
        "tokens.oauth.logout.delivery.MOST_STRANGERS",
        "tokens.upstream.exchange.LIMIT_S",
        "tokens.upstream.kept.services.LOOKS",
        "tokens.upstream.kept.services.PAUSE_S",
        "accounts.audit.queries.MANY",
        "tokens.clients.fetched.keys.REST_S",
        "tokens.oauth.token.introspection.MAX_BODY",
        "tokens.oauth.token.introspection.MAX_QUESTIONS",
        "tokens.upstream.exchange.LONGEST",
        "tokens.upstream.client_secret.LIFE_S",
        "tokens.upstream.exchange.AT_ONCE",
        "accounts.audit.counts.FRESH_S",
        "accounts.passwords.breached_file.LONGEST_LINE",
        "accounts.passwords.breached.RECORD_BYTES",
        "accounts.passwords.breached_service.THREADS",
        "accounts.outbox.tokens.ID_BYTES",
        "tokens.sign_in.email_services.DELIVERY_S",
        "ironauth.infrastructure.core.constant_time.TIMER_S",
        "ironauth.infrastructure.db.outbox.MAX_DUE",
        "ironauth.server.response.JOINED_BYTES",
        "ironauth.server.worker_sockets.MAX_PATH_BYTES",
        "ironauth.server.response.MAX_KEPT",
        "ironauth.server.response.MOST_WAITING",
        "ironauth.server.response.MOST_TOGETHER",
        "ironauth.infrastructure.threads.circuit_breaker.PAUSE_S",
        "ironauth.infrastructure.cache.broadcast.AT_ONCE",
        "ironauth.infrastructure.cache.two_level.MAX_ABSENT_BYTES",
        "ironauth.infrastructure.http.cookies.LONGEST_REMEMBERED",
        "ironauth.infrastructure.http.cookies.MOST_REMEMBERED",
        "ironauth.infrastructure.db.faults.QUIET_S",
        "ironauth.infrastructure.hashing.local_pool.SAFETY_FACTOR",
        "ironauth.infrastructure.hashing.local_pool.DEVIATIONS",
        "ironauth.infrastructure.hashing.local_pool.FIRST_GUESS_S",
        "ironauth.infrastructure.hashing.priority.WEAKEST_NICE",
        "ironauth.infrastructure.hashing.remote.protocol.HEADER_BYTES",
        "ironauth.infrastructure.cache.gap_tracker.GAP_MIN_S",
        "ironauth.infrastructure.cache.gap_tracker.MAX_GAPS",
        "ironauth.infrastructure.http.fast_request.MAX_REMEMBERED",
        "ironauth.infrastructure.cache.sizes.ALIKE_BYTES",
        "ironauth.infrastructure.cache.shared_entries.AHEAD_S",
        "ironauth.infrastructure.cache.shared_entries.LONGEST_S",
        "ironauth.infrastructure.cache.shared_entries.MOST_WAITING",
        "ironauth.infrastructure.cache.shared_entries.MOST_OPEN",
        "ironauth.infrastructure.cache.memory.BESIDE_BYTES",
        "ironauth.infrastructure.cache.memory.ENTRY_BYTES",
        "ironauth.infrastructure.cache.memory.MAX_PASSED",
        "ironauth.infrastructure.cache.sizes.MAX_SIZES",
        "ironauth.infrastructure.cache.memory.TAG_BYTES",
        "ironauth.infrastructure.http.hot_lane.ANSWER_BYTES",
        "ironauth.infrastructure.http.hot_lane.FIELD_BYTES",
        "ironauth.infrastructure.http.hot_lane.MAX_SHARED",
        "ironauth.infrastructure.cache.memory.RECENT_S",
        "ironauth.infrastructure.cache.memory.SWEPT",
        "ironauth.infrastructure.cache.memory.UNKNOWN_ID",
        "ironauth.infrastructure.http.fast_request.MAX_NAMES",
        "ironauth.infrastructure.telemetry.log_pipe.MAX_WAITING",
        "ironauth.server.instrumentation.metrics_sampling.TICK_S",
        "ironauth.infrastructure.telemetry.metrics.MAX_SERIES",
        "ironauth.infrastructure.http.error_pages.LONGEST_ACCEPT",
        "ironauth.infrastructure.db.outbox.POLL_S",
        "tokens.upstream.discovery.KEYS_GAP_S",
        "ironauth.infrastructure.db.outbox.THREADS",
        "ironauth.infrastructure.core.stdio.READER_GONE",
        "ironauth.pages.PUBLIC_FOR_S",
        "ironauth.server.graceful.END_S",
        "ironauth.server.graceful.DRAIN_S",
        "ironauth.server.server.GRACEFUL_S",
        "ironauth.server.server.KEEP_ALIVE_S",
        "ironauth.server.server.RESERVED_FILES",
        "ironauth.server.supervisor.HANG_UP_S",
    }
)
_CONSTANT: Final = re.compile(r"_?[A-Z][A-Z0-9_]+")


#: Numbers that a setting gives unless an operator chooses another one, and the seconds in which so many may be. The
#: guide of organisations and docs/security/figures.md say them.
PROMISED_RATES: Final = {
    "accounts.lockout.rate_limits.MAIL": (30, 3_600),
    "accounts.lockout.rate_limits.MAIL_TO_ONE": (5, 900),
}


@pytest.mark.parametrize("rule", PROMISED_RATES)
def test_the_rate_is_what_was_promised(rule: str) -> None:
    """Messages to one mailbox and for one account, and those one client asks for, are bounded as documented."""
    module, _, name = rule.rpartition(".")
    found = getattr(import_module(module), name)
    assert (SETTINGS[found.setting].default, found.window_s) == PROMISED_RATES[rule]


@pytest.mark.parametrize("limit", PROMISED)
def test_the_limit_is_what_was_promised(limit: str) -> None:
    """The product has the value that is promised, and no other."""
    module, _, name = limit.rpartition(".")
    assert getattr(import_module(module), name) == PROMISED[limit]


def test_no_test_imports_a_limit_that_is_not_written_down_here() -> None:
    """A number that a test takes from the product is in one of the two lists; in the first unless it is mere tuning."""
    names = {str(file.relative_to(ROOT)): file for file in python_files()}
    apps = ("accounts/", "tokens/", "ironauth/")
    ours = {name: ast.parse(file.read_text()) for name, file in names.items() if name.startswith(apps)}
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
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                modules[one.asname or one.name] = f"{node.module}.{one.name}"
                found |= {f"{node.module}.{one.name}"} if _CONSTANT.fullmatch(one.name) else set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add(f"{modules[node.value.id]}.{node.attr}")
    return found
