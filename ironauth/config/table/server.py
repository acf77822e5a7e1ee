"""Settings of the process: what it serves, its pools, where it stores, what it reports."""

from urllib.parse import quote

from ironauth.config import addresses, hash_workers, storage, traces
from ironauth.config.checks import (
    default_database_threads,
    default_hash_threads,
    metrics_token,
    refuse_missing_laboratory,
    required_secret,
)
from ironauth.config.environment import Limit
from ironauth.config.table.setting import Section, Setting, SettingValues


def _laboratory_is_here(wanted: bool, _: SettingValues) -> bool:
    refuse_missing_laboratory(wanted=wanted)
    return wanted


def _of_traces(name: str, example: str, text: str) -> Setting:
    return Setting(name, text, example=example, read_by="IRONAUTH_TRACES", refused="no such number")


PROCESS = Section(
    "process",
    Setting(
        "SECRET_KEY",
        "Required. Signs admin sessions and CSRF tokens; at least 43 characters:\n"
        "  python3 -c 'import secrets; print(secrets.token_urlsafe(48))'",
        accept=lambda value, _: required_secret(value, "SECRET_KEY"),
        required=True,
        refused="missing, shorter than 43 characters, or a placeholder",
        secret=True,
    ),
    Setting(
        "ALLOWED_HOSTS",
        "Required unless DEBUG: the host names this server answers to, separated by commas (default: none). "
        "`.example.com` stands for a domain and everything below it; `*` is refused.",
        kind="words",
        default=lambda given: ["localhost", "127.0.0.1", "[::1]"] if given["DEBUG"] else [],
        example="id.example.com",
        accept=lambda value, _: addresses.hosts(value, "ALLOWED_HOSTS"),
        required=True,
        refused="none, `*`, or what no Host header can match",
    ),
    Setting(
        "DEBUG",
        "0 or 1. 1 is for one's own machine: Django's error pages, cookies without Secure; refused unless "
        "IRONAUTH_ISSUER and all ALLOWED_HOSTS are loopback.",
        default=False,
        refused="1 with a public issuer or host",
    ),
    Setting(
        "IRONAUTH_SERVE_PORT",
        "The TCP port of `manage.py serve`, {least} to {most}; `serve --port` sets it. With DEBUG the issuer has it "
        "too.",
        default=8000,
        limit=Limit(1, 65_535, "TCP", "what TCP has"),
    ),
    Setting(
        "IRONAUTH_ENV_FILE",
        "Path of the file with these lines; read if it exists. From the real environment only.",
        example="var/env",
        read_by="ironauth.settings, before all others",
        refused="a file that others may read, or a malformed line",
    ),
    Setting(
        "IRONAUTH_PROJECT",
        "Path of the folder that has var/ in it, of a project that is built on IronAuth; its settings set it. Without "
        "it, the folder of the code. From the real environment only.",
        example="/srv/shop",
        read_by="ironauth.settings, before all others",
    ),
)


LANES = Section(
    "lanes",
    Setting(
        "IRONAUTH_HOT_LANE",
        "0 or 1: repeat the answers of /me, /verify, /oauth/userinfo and /oauth/introspect for a token seen before "
        "without Django.",
        default=True,
    ),
    Setting(
        "IRONAUTH_PERF_ENDPOINTS",
        "0 or 1: serve /perf/serialization/…, which measures and protects nothing. For measuring, not for production; "
        "refused where the folder perf/ is not installed.",
        default=False,
        accept=_laboratory_is_here,
        refused="1 where the folder perf/ is not installed",
    ),
)


POOLS = Section(
    "pools",
    Setting(
        "IRONAUTH_HASH_THREADS",
        "Argon2id threads of this machine, divided among its workers, {least} to {most} (default: usable CPUs, at most "
        "4). Peak memory of hashing is this times IRONAUTH_ARGON2_MEMORY_KIB.",
        kind="whole",
        default=lambda _: default_hash_threads(),
        example="2",
        limit=Limit(1, 64, "threads", "each takes IRONAUTH_ARGON2_MEMORY_KIB"),
    ),
    Setting(
        "IRONAUTH_HASH_MAX_WAIT_S",
        "A sign-in that would wait longer for a hash thread gets 503, {least} to {most} seconds; one whose expected "
        "wait is over 0.8 of it gets it at once.",
        default=4.0,
        limit=Limit(0.1, 30, "seconds", "a shorter wait refuses sign-ins on an idle server; proxies give up after 60"),
    ),
    Setting(
        "IRONAUTH_HASH_NICE",
        "How much the hash threads give way to everything else of the server on Linux, niceness {least} to {most}, "
        "with SCHED_BATCH; 0 sets neither.",
        default=19,
        limit=Limit(0, 19, "niceness", "a negative one needs a privilege, and 19 is the end: setpriority(2)"),
    ),
    Setting(
        "IRONAUTH_HASH_APART",
        "0 or 1: run Argon2 in a process beside each worker, so that the memory it maps and returns holds up no "
        "request; 0: on threads of the worker, which saves 15 MiB.",
        default=True,
    ),
    Setting(
        "IRONAUTH_HASH_WORKERS",
        "Hash workers, which are `manage.py hashworker` on other machines, separated by commas: tls://host:port, or "
        "unix:/absolute/path on this one, served by the same user (default: none). Needs IRONAUTH_PASSWORD_PEPPERS: a "
        "hash worker gets no password, but its MAC under a pepper. It is as trusted as this server: one that lies lets "
        "anybody in.",
        default=(),
        example="tls://hash1.internal:8443",
        read=lambda env, given: hash_workers.read(env, peppers=given["IRONAUTH_PASSWORD_PEPPERS"]),
        type="HashWorkerSettings | None",
        refused="no pepper, an item that is no such address, a worker named twice, more than 16",
    ),
    Setting(
        "IRONAUTH_HASH_WORKER_CERT",
        "With tls:// only: absolute path of this node's certificate (PEM).",
        example="/etc/ironauth/node.crt",
        read_by="IRONAUTH_HASH_WORKERS",
        refused="no file although a worker has a tls:// address, or set without workers",
    ),
    Setting(
        "IRONAUTH_HASH_WORKER_KEY",
        "With tls:// only: absolute path of the certificate's key (PEM).",
        example="/etc/ironauth/node.key",
        read_by="IRONAUTH_HASH_WORKERS",
        refused="as its certificate",
    ),
    Setting(
        "IRONAUTH_HASH_WORKER_CA",
        "With tls:// only: absolute path of the CA that signed the workers' certificates; it should sign nothing else.",
        example="/etc/ironauth/hash-ca.crt",
        read_by="IRONAUTH_HASH_WORKERS",
        refused="as the certificate",
    ),
    Setting(
        "IRONAUTH_HASH_WORKER_CONNECTIONS",
        "Connections of each process to each hash worker, hence hashes under way there, {least} to {most}.",
        default=8,
        limit=Limit(
            1, 64, "connections", "each has a thread that waits, in every process; the most threads a worker may have"
        ),
        read_by="IRONAUTH_HASH_WORKERS",
    ),
    Setting(
        "IRONAUTH_HASH_WORKER_TIMEOUT_S",
        "A hash that a worker does not answer in this time is done here, {least} to {most} seconds.",
        default=2.0,
        limit=Limit(
            0.1, 30, "seconds", "a shorter wait gives up on a worker that is merely busy; proxies give up after 60"
        ),
        read_by="IRONAUTH_HASH_WORKERS",
    ),
    Setting(
        "IRONAUTH_DATABASE_THREADS",
        "Database threads of one worker, each with its connection, {least} to {most} (default: twice the usable CPUs, "
        "from 2 to 8).",
        kind="whole",
        default=lambda _: default_database_threads(),
        example="4",
        limit=Limit(1, 100, "threads", "each holds a connection, and Postgres has 100 unless told otherwise"),
    ),
    Setting(
        "IRONAUTH_DATABASE_TIMEOUT_S",
        "A unit of work that takes longer, waiting included, gets 503, {least} to {most} seconds.",
        default=1.5,
        limit=Limit(0.1, 30, "seconds", "a shorter time refuses ordinary work; proxies give up after 60"),
    ),
)


STORAGE = Section(
    "storage",
    Setting(
        "DATABASE_URL",
        "postgres://user:password@host:5432/name, or sqlite:////absolute/path (default: var/ironauth.sqlite3). Several "
        "nodes (host:5432,host:5432): the one that takes writes is used. Special characters of a password as %XX, also "
        "below.",
        kind="text",
        default=lambda given: f"sqlite:///{quote(str(given['BASE_DIR'] / 'var' / 'ironauth.sqlite3'))}",
        example="postgres://ironauth:@127.0.0.1:5432/ironauth",
        accept=lambda value, _: storage.database(value, "DATABASE_URL"),
        exported=False,
        refused="no SQLite URL with an absolute path and no Postgres URL",
        secret=True,
    ),
    Setting(
        "IRONAUTH_REPLICA_URL",
        "Where lists, search, the audit trail and exports are read: a replica of DATABASE_URL, in its form; several: "
        "the first that answers as a replica (default: none, the primary). Whatever decides who somebody is or what "
        "they may do is read from the primary.",
        example="postgres://ironauth:@127.0.0.1:5001/ironauth",
        accept=lambda value, given: storage.replica(value, "IRONAUTH_REPLICA_URL", of=given["DATABASE_URL"]),
        exported=False,
        refused="no Postgres URL, or set beside a database that is not Postgres",
        secret=True,
    ),
    Setting(
        "IRONAUTH_REPLICA_MAX_LAG_S",
        "How far that replica may be behind, {least} to {most} seconds; beyond it, and when it is away, the primary is "
        "read.",
        default=5.0,
        limit=Limit(
            0.5,
            60,
            "seconds",
            "a shorter time asks the primary for its position without rest; a longer one shows staff what is over",
        ),
    ),
    Setting(
        "REDIS_URL",
        "redis://host:6379/0 (rediss:// for TLS, unix:///path for a socket; redis+sentinel://host:26379,host/name "
        "for the master that Sentinel names): second cache level, and instant revocation in other workers (default: "
        "none, memory only).",
        accept=lambda value, _: storage.redis(value, "REDIS_URL"),
        refused="no Redis URL",
        secret=True,
    ),
    Setting(
        "IRONAUTH_L1_MAX_STALE_S",
        "Longest time another worker may still take a revoked token for good when messages are lost, {least} to {most} "
        "seconds.",
        default=5.0,
        limit=Limit(
            0.5, 30, "seconds", "a shorter time reads the database without rest; a longer one lets a revoked token live"
        ),
    ),
    Setting(
        "IRONAUTH_L1_MIB",
        "Memory in one worker for verified tokens and the answers to them, {least} to {most} MiB: 360 "
        "live tokens in each. When it is full, those that were not used lately make room.",
        default=128,
        limit=Limit(1, 65_536, "MiB", "with too little tokens push each other out while requests run"),
    ),
)


TELEMETRY = Section(
    "logs, metrics, traces",
    Setting(
        "IRONAUTH_LOG_LEVEL",
        "DEBUG, INFO, WARNING, ERROR or CRITICAL.",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    ),
    Setting(
        "IRONAUTH_LOG_FORMAT",
        "json or console (default: console with DEBUG).",
        default=lambda given: "console" if given["DEBUG"] else "json",
        example="json",
        choices=("json", "console"),
    ),
    Setting("IRONAUTH_ACCESS_LOG", "0 or 1: one line for each request.", default=True),
    Setting(
        "IRONAUTH_METRICS",
        "0 or 1: count and time what the server does, and serve the figures of all its workers at /metrics as "
        "Prometheus' text (off: /metrics is 404 and nothing is counted).",
        default=False,
        refused="1 without IRONAUTH_METRICS_TOKEN",
    ),
    Setting(
        "IRONAUTH_METRICS_TOKEN",
        "Required with IRONAUTH_METRICS: what Prometheus sends as Bearer token (authorization.credentials_file in its "
        "job), 43 to 255 characters; nobody else gets an answer, also not from this machine:\n"
        "  python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        accept=lambda value, given: metrics_token(value, on=given["IRONAUTH_METRICS"]),
        refused="missing with IRONAUTH_METRICS=1, shorter than 43 characters, other characters",
        secret=True,
    ),
    Setting(
        "IRONAUTH_TRACES",
        "0 or 1: send OpenTelemetry traces to a collector; needs requirements/install.sh otel: docs/operate/traces.md.",
        default=False,
        read=lambda env, _: traces.are_traces_wanted(env),
        refused="1 without the packages, or with an OTEL_ variable the SDK cannot use",
    ),
    Setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "Where the collector takes OTLP over HTTP; read with IRONAUTH_TRACES=1 only. The SDK's other variables work "
        "too: OTEL_TRACES_SAMPLER and _ARG, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_BSP_…",
        example="http://localhost:4318",
        read_by="IRONAUTH_TRACES",
        refused="no http:// or https:// address",
    ),
    _of_traces("OTEL_BSP_MAX_QUEUE_SIZE", "2048", "Spans that may wait, a whole number from 1."),
    _of_traces(
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512", "Spans sent at once, a whole number from 1; not more than may wait."
    ),
    _of_traces("OTEL_BSP_SCHEDULE_DELAY", "5000", "Milliseconds between two batches, a whole number from 1."),
    _of_traces("OTEL_BSP_EXPORT_TIMEOUT", "30000", "Milliseconds that one batch may take, a whole number from 1."),
    _of_traces(
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "10",
        "Seconds that the collector may take to answer; a number above 0, decimals allowed.",
    ),
)
