"""What every number among the settings may be, with its unit and the reason for both ends.

``deploy/env.example`` states the same figures; a test compares them.
"""

from ironauth.config.environment import Limit

# Browsers forget a cookie after 400 days whatever it says (RFC 6265bis §5.5): no session outlasts its refresh cookie.
COOKIE_LIFE_S = 400 * 86_400
# SP 800-63B-4 §3.1.1.2: passwords of 64 characters are accepted, so none may be too short.
PASSWORD_MUST_FIT = 64
SESSION = "less ends it while a form is filled in, and browsers keep no cookie beyond 400 days"
STORED_HASH = "the most that a stored hash may ask for"  # accounts.passwords.phc: beyond it nothing could be verified
ADDRESS = "a whole office may share one client address, and so may an attacker's machines"

LIMITS = {
    "IRONAUTH_ACCESS_TOKEN_S": Limit(
        1, 3_600, "seconds", "other applications believe a token until it ends, also after a sign-out"
    ),
    "IRONAUTH_REFRESH_GRACE_S": Limit(
        0, 60, "seconds", "a stolen refresh token is not noticed for that long; 60 covers a client's retries"
    ),
    "IRONAUTH_SESSION_IDLE_S": Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
    "IRONAUTH_SESSION_ABSOLUTE_S": Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
    "IRONAUTH_MAX_SESSIONS_PER_USER": Limit(
        5, 1_000, "sessions", "a browser and an application take three with single sign-on; a list shows 1,000"
    ),
    "IRONAUTH_SSO_IDLE_S": Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
    "IRONAUTH_SSO_ABSOLUTE_S": Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
    "IRONAUTH_JWKS_MAX_AGE_S": Limit(
        0, 86_400, "seconds", "other applications believe a compromised key for that long"
    ),
    "IRONAUTH_PASSWORD_MIN_LENGTH": Limit(
        8, PASSWORD_MUST_FIT, "code points", "at least 8: ASVS 6.2.1; passwords of 64 are accepted: SP 800-63B-4"
    ),
    "IRONAUTH_ARGON2_TIME_COST": Limit(1, 20, "passes", STORED_HASH),
    "IRONAUTH_ARGON2_MEMORY_KIB": Limit(7_168, 1_048_576, "KiB", f"less is below the OWASP floor; {STORED_HASH}"),
    "IRONAUTH_ARGON2_PARALLELISM": Limit(1, 16, "lanes", STORED_HASH),
    "IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S": Limit(
        0.1, 10, "seconds", "less gives up on a service far away, and people wait for it when they choose a password"
    ),
    "IRONAUTH_THROTTLE_SIGNIN_FAILURES": Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    "IRONAUTH_THROTTLE_SIGNUPS": Limit(1, 1_000_000, "in an hour", ADDRESS),
    "IRONAUTH_THROTTLE_BAD_REFRESHES": Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    "IRONAUTH_THROTTLE_PASSKEYS": Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    "IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS": Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    "IRONAUTH_THROTTLE_MAILS": Limit(1, 1_000_000, "in an hour", ADDRESS),
    "IRONAUTH_THROTTLE_MAILS_TO_ONE": Limit(
        1, 1_000_000, "in 15 minutes", "a mailbox is not to be filled by strangers, and mail is lost at times"
    ),
    "IRONAUTH_THROTTLE_EXPORTS": Limit(1, 1_000, "in an hour", "each reads all that is held about a person"),
    "IRONAUTH_THROTTLE_NEW_FACTORS": Limit(
        1, 1_000, "in an hour", "each fills a mailbox, and may take ten hashes from who signs in at that moment"
    ),
    "IRONAUTH_MAIL_TIMEOUT_S": Limit(
        1, 60, "seconds", "less gives up on mail servers that look up names first; more keeps one of four threads"
    ),
    "IRONAUTH_EMAIL_TOKEN_MIN": Limit(
        10, 60, "minutes", "mail takes minutes at times; ASVS 6.4.1 wants such tokens short-lived"
    ),
    # accounts.audit.triggers: the database itself keeps events for 29 days.
    "IRONAUTH_AUDIT_KEEP_DAYS": Limit(
        30, 3_650, "days", "an intrusion is often found after weeks, and personal data is not kept for ever"
    ),
    "IRONAUTH_DELETION_GRACE_DAYS": Limit(
        0, 30, "days", "0 deletes at once, and a person may ask to be forgotten within a month: GDPR Art. 12 (3)"
    ),
    "IRONAUTH_HASH_THREADS": Limit(1, 64, "threads", "each takes IRONAUTH_ARGON2_MEMORY_KIB"),
    "IRONAUTH_HASH_MAX_WAIT_S": Limit(
        0.1, 30, "seconds", "less refuses sign-ins on an idle server, and proxies give up after 60"
    ),
    "IRONAUTH_HASH_NICE": Limit(0, 19, "niceness", "less needs a privilege, more does not exist: setpriority(2)"),
    "IRONAUTH_HASH_WORKER_CONNECTIONS": Limit(
        1, 64, "connections", "each has a thread that waits, in every process; the most threads a worker may have"
    ),
    "IRONAUTH_HASH_WORKER_TIMEOUT_S": Limit(
        0.1, 30, "seconds", "less gives up on a worker that is merely busy, and proxies give up after 60"
    ),
    "IRONAUTH_DATABASE_THREADS": Limit(
        1, 100, "threads", "each holds a connection, and Postgres has 100 unless told otherwise"
    ),
    "IRONAUTH_DATABASE_TIMEOUT_S": Limit(
        0.1, 30, "seconds", "less refuses ordinary work, and proxies give up after 60"
    ),
    # The feed reads the table 2.5 times in this time, so 0 would never rest; invalidations are remembered for 60 s.
    "IRONAUTH_L1_MAX_STALE_S": Limit(
        0.5, 30, "seconds", "less reads the database without rest, more lets a revoked token live"
    ),
    "IRONAUTH_L1_MAX_ENTRIES": Limit(
        100, 1_000_000, "entries", "fewer push each other out while requests run; each takes about 2 KiB of memory"
    ),
}
