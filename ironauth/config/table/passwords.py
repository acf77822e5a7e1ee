"""Settings of passwords, second factors and throttles."""

from ironauth.config import addresses
from ironauth.config.checks import key_ring, refuse_weak_argon2
from ironauth.config.environment import Limit
from ironauth.config.table.setting import Section, Setting, SettingValues

# SP 800-63B-4 §3.1.1.2: passwords of 64 characters are accepted, so none may be too short.
PASSWORD_MUST_FIT = 64
STORED_HASH = "the most that a stored hash may ask for"  # accounts.passwords.formats: beyond it nothing is verified
ADDRESS = "a whole office may share one client address, and so may an attacker's machines"


def _not_weak(parallelism: int, given: SettingValues) -> int:
    refuse_weak_argon2(
        time_cost=given["IRONAUTH_ARGON2_TIME_COST"],
        memory_kib=given["IRONAUTH_ARGON2_MEMORY_KIB"],
        parallelism=parallelism,
    )
    return parallelism


PASSWORDS = Section(
    "passwords",
    Setting(
        "IRONAUTH_PASSWORD_MIN_LENGTH",
        "Least length of a new password, {least} to {most} code points (15: SP 800-63B-4 §3.1.1.2).",
        default=15,
        limit=Limit(
            8, PASSWORD_MUST_FIT, "code points", "at least 8: ASVS 6.2.1; passwords of 64 are accepted: SP 800-63B-4"
        ),
    ),
    Setting(
        "IRONAUTH_ARGON2_TIME_COST",
        "Passes of Argon2id, {least} to {most}. With the memory not below the OWASP floor, e.g. 2 passes with 19456 "
        "KiB.",
        default=3,
        limit=Limit(1, 20, "passes", STORED_HASH),
    ),
    Setting(
        "IRONAUTH_ARGON2_MEMORY_KIB",
        "Memory of one hash, {least} to {most} KiB (64 MiB: RFC 9106 §4).",
        default=65_536,
        limit=Limit(7_168, 1_048_576, "KiB", f"a lower value is below the OWASP floor; {STORED_HASH}"),
    ),
    Setting(
        "IRONAUTH_ARGON2_PARALLELISM",
        "Lanes of one hash, {least} to {most}.",
        default=1,
        limit=Limit(1, 16, "lanes", STORED_HASH),
        accept=_not_weak,
        refused="the three together below the OWASP floor",
    ),
    Setting(
        "IRONAUTH_PASSWORD_PEPPERS",
        "id:key items, newest first: HMAC-SHA-256 keys applied before Argon2id (default: none). Losing one locks out "
        "everybody whose hash names it.",
        default=(),
        accept=lambda value, _: key_ring(value, "IRONAUTH_PASSWORD_PEPPERS", required=False),
        type="dict[str, bytes]",
        refused="a malformed item, a repeated id or key, a key that is not random",
        secret=True,
    ),
    Setting(
        "IRONAUTH_SALTED_SHA_HASHES",
        "Take over, and judge, imported hashes of one round of salted SHA. They protect little until their people "
        "sign in.",
        default=False,
    ),
    Setting(
        "IRONAUTH_BREACHED_PASSWORDS",
        "The list of breached passwords, made by `manage.py breached_passwords install FILE`. None of them may be "
        "chosen, and people who sign in with one are told (default: var/breached-passwords beside the code, if it "
        "exists). A path that is set and has no list stops the start of a server.",
        example="var/breached-passwords",
        refused="a path without a list, when a server starts",
    ),
    Setting(
        "IRONAUTH_BREACHED_PASSWORDS_URL",
        'A service with the range API of "Have I Been Pwned", asked in addition whenever a password is set (default: '
        "none): it is sent the first five hexadecimal characters of the password's SHA-1, and nothing else. https; "
        "http on loopback only.",
        example="https://api.pwnedpasswords.com/range",
        accept=lambda value, _: addresses.range_service(value, "IRONAUTH_BREACHED_PASSWORDS_URL"),
        refused="no https:// address without trailing slash and query",
    ),
    Setting(
        "IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S",
        "Longest wait for the service of IRONAUTH_BREACHED_PASSWORDS_URL, {least} to {most} seconds; without an answer "
        "the password passes.",
        default=1.0,
        limit=Limit(
            0.1,
            10,
            "seconds",
            "a shorter wait gives up on a service far away; people wait for it when they choose a password",
        ),
    ),
)


FACTORS = Section(
    "second factors",
    Setting(
        "IRONAUTH_STAFF_MFA",
        "optional or required: whether staff work only in sessions that a second factor has opened or confirmed; the "
        "staff API answers 403 mfa_enrolment_required to others.",
        default="optional",
        choices=("optional", "required"),
    ),
)


THROTTLES = Section(
    "throttles",
    Setting(
        "IRONAUTH_THROTTLE",
        "0 or 1 (off, on): answer 429 to clients that try too often. Off is for load tests, whose clients share one "
        "address. Behind a proxy set IRONAUTH_TRUSTED_PROXIES: otherwise everybody has the proxy's address and shares "
        "one count.",
        default=True,
    ),
    Setting(
        "IRONAUTH_THROTTLE_SIGNIN_FAILURES",
        "Failed sign-ins of one client address (IPv6: /64) in any 15 minutes, {least} to {most}; its tries of recovery "
        "codes are counted apart. In addition each account has its own count of wrong passwords and one of wrong "
        "one-time codes, which no setting changes: ten tries, then growing waits, 100 failures in a row at most.",
        default=100,
        limit=Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_SIGNUPS",
        "Sign-ups from one client address in any hour, {least} to {most} (default: 30, with DEBUG 1000000).",
        kind="whole",
        default=lambda given: 1_000_000 if given["DEBUG"] else 30,
        example="30",
        limit=Limit(1, 1_000_000, "in an hour", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_BAD_REFRESHES",
        "Refreshes with a token that is not valid, from one client address in any 15 minutes, {least} to {most}, and, "
        "counted apart, its OAuth requests whose client did not prove who it is, those that a client without secret "
        "has stored (PAR), and, in each process, how often devices of one client ask sooner than they may.",
        default=300,
        limit=Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_PASSKEYS",
        "Challenges for signing in with a passkey, and answers that are not valid, of one client address in any 15 "
        "minutes, {least} to {most}.",
        default=300,
        limit=Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS",
        "Invalid tokens of messages (reset, verification) from one client address in any 15 minutes, {least} to "
        "{most}.",
        default=100,
        limit=Limit(5, 1_000_000, "in 15 minutes", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_MAILS",
        "Messages (reset, verification, change of address) one client address may ask for in any hour, {least} to "
        "{most}.",
        default=30,
        limit=Limit(1, 1_000_000, "in an hour", ADDRESS),
    ),
    Setting(
        "IRONAUTH_THROTTLE_MAILS_TO_ONE",
        "Messages of one kind to one e-mail address, no matter who asks, and for one account, in any 15 minutes, "
        "{least} to {most}.",
        default=5,
        limit=Limit(
            1, 1_000_000, "in 15 minutes", "a mailbox is not to be filled by strangers, and mail is lost at times"
        ),
    ),
    Setting(
        "IRONAUTH_THROTTLE_EXPORTS",
        "Exports of all that is held about a person, for one account in any hour, {least} to {most}.",
        default=5,
        limit=Limit(1, 1_000, "in an hour", "each reads all that is held about a person"),
    ),
    Setting(
        "IRONAUTH_THROTTLE_NEW_FACTORS",
        "Second factors set up, and sets of recovery codes made, for one account in any hour, {least} to {most}.",
        default=20,
        limit=Limit(
            1, 1_000, "in an hour", "each fills a mailbox, and may take ten hashes, for which sign-ins have to wait"
        ),
    ),
)
