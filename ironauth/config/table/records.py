"""Settings of mail, and of how long records are kept."""

from urllib.parse import quote

from ironauth.config import addresses, mail
from ironauth.config.environment import Limit
from ironauth.config.table.setting import Section, Setting

MAIL = Section(
    "mail",
    Setting(
        "EMAIL_URL",
        "Where messages go: smtp+tls://user:password@host:587 (STARTTLS), smtp+ssl://user:password@host:465, "
        "smtp://host:25 (no TLS, no password but to this machine), filemail:///absolute/folder, consolemail:// "
        "(default: consolemail:// with DEBUG, else files in var/mail beside the code, which nobody receives: the start "
        "warns of that without DEBUG).",
        kind="text",
        default=lambda given: (
            mail.CONSOLE if given["DEBUG"] else f"filemail://{quote(str(given['BASE_DIR']))}/var/mail"
        ),
        example="smtp+tls://ironauth:@mail.example.com:587",
        accept=lambda value, given: mail.mailer(value, "EMAIL_URL", timeout_s=given["IRONAUTH_MAIL_TIMEOUT_S"]),
        exported=False,
        refused="no mail URL, a user or a password alone, a password that would travel unencrypted",
        secret=True,
    ),
    Setting(
        "IRONAUTH_MAIL_FROM",
        "The address messages come from (default: no-reply at the host of IRONAUTH_ISSUER).",
        kind="text",
        default=lambda given: mail.default_sender(given["IRONAUTH_ISSUER"]),
        example="no-reply@id.example.com",
        accept=lambda value, _: mail.sender(value, "IRONAUTH_MAIL_FROM"),
        refused="no e-mail address",
    ),
    Setting(
        "IRONAUTH_MAIL_DELIVERY",
        "server: every serving process delivers; worker: `manage.py deliver_mail` does, as a service of its own.",
        default="server",
        choices=("server", "worker"),
    ),
    Setting(
        "IRONAUTH_MAIL_TIMEOUT_S",
        "Longest wait for each answer of the mail server, {least} to {most} seconds; a message not accepted is tried "
        "again for a day.",
        default=10.0,
        limit=Limit(
            1, 60, "seconds", "a shorter wait gives up on mail servers that look names up; a longer one keeps a thread"
        ),
    ),
    Setting(
        "IRONAUTH_EMAIL_VERIFICATION",
        "off: new accounts get no message; optional: they are asked to verify their address; required: they cannot "
        "sign in before, staff not to the admin either (default: required when EMAIL_URL names a mail server, without "
        "DEBUG; else off). Who has an account: with required nothing tells. With off and optional a sign-up does (409 "
        "email_taken), and nothing else: no sign-in, reset or message.",
        example="required",
        choices=("off", "optional", "required"),
        read=lambda env, given: mail.verification(env, given["EMAIL_URL"], debug=given["DEBUG"]),
    ),
    Setting(
        "IRONAUTH_SECURITY_CONTACT",
        "Where holes of this deployment are reported, for /.well-known/security.txt (RFC 9116): addresses such as "
        "mailto:security@example.com or https://example.com/report, the best first (default: none, and no file).",
        kind="words",
        default=lambda given: [],
        example="mailto:security@example.com",
        accept=lambda value, _: addresses.contacts(value, "IRONAUTH_SECURITY_CONTACT"),
        refused="an item that begins with neither mailto: nor https: nor tel:",
    ),
    Setting(
        "IRONAUTH_SIGN_UP",
        "open: anybody may make an account; invitation: who has got an invitation of staff may; closed: staff make "
        "accounts, by the admin or the API.",
        default="open",
        choices=("open", "invitation", "closed"),
    ),
    Setting(
        "IRONAUTH_INVITATION_TTL",
        "How long the link of an invitation works, {least} to {most} days.",
        default=7,
        limit=Limit(1, 30, "days", "people are away for a week; a link in a mailbox makes an account"),
    ),
    Setting(
        "IRONAUTH_ORGANIZATIONS",
        "off: there are none; staff: staff make organizations of people; anybody: everybody with an account may make "
        "some. Their owners and admins invite people; with IRONAUTH_SIGN_UP=invitation such an invitation makes an "
        "account too.",
        default="off",
        choices=("off", "staff", "anybody"),
    ),
    Setting(
        "IRONAUTH_SIGN_IN_FORM",
        "both: the sign-in page asks for address and password at once. identifier_first: it asks for the address, "
        "and the next page for the password; an address whose domain belongs to another provider goes on to that. "
        "Neither page tells whether the address has an account.",
        default="both",
        choices=("both", "identifier_first"),
    ),
    Setting(
        "IRONAUTH_SIGN_IN_BY_EMAIL",
        "0 or 1: people may sign in with a code of six digits, or the link, that is mailed to them, in place of the "
        "password; a second factor is asked for as after a password.",
        default=False,
    ),
    Setting(
        "IRONAUTH_EMAIL_TOKEN_MIN",
        "How long a link in a message works, {least} to {most} minutes from its sending.",
        default=30,
        limit=Limit(10, 60, "minutes", "mail takes minutes at times; ASVS 6.4.1 wants such tokens short-lived"),
    ),
    Setting(
        "IRONAUTH_NEW_DEVICE_MAIL",
        "0 or 1: a message when somebody signs in from a browser and network not seen before with this account, never "
        "at the first sign-in (default: 1 when EMAIL_URL names a mail server, else 0: the message would reach nobody).",
        kind="switch",
        default=lambda given: mail.names_server(given["EMAIL_URL"]),
        example="1",
    ),
    Setting(
        "IRONAUTH_TEMPLATES",
        "Absolute path of a folder whose templates replace ours of the same name, e.g. "
        "accounts/mail/reset_password.txt below it (default: none).",
        accept=lambda value, _: mail.template_folders(value, "IRONAUTH_TEMPLATES"),
        type="list[str]",
        refused="no absolute path of a folder",
    ),
)


RECORDS = Section(
    "audit and privacy",
    Setting(
        "IRONAUTH_AUDIT_KEEP_DAYS",
        "How long security-relevant events are kept by `purge_expired`, {least} to {most} days: a year and time for a "
        "yearly review.",
        default=400,
        limit=Limit(
            30, 3_650, "days", "an intrusion is often found after weeks, and personal data is not kept without end"
        ),
    ),
    Setting(
        "IRONAUTH_DELETION_GRACE_DAYS",
        "How long people can take the deletion of their account back, {least} to {most} days; then `purge_expired` "
        "deletes it. 0: at once. An account that a mailbox's owner says is a stranger's stays 7 days where this is 0.",
        default=7,
        limit=Limit(
            0, 30, "days", "0 deletes at once, and a person may ask to be forgotten within a month: GDPR Art. 12 (3)"
        ),
    ),
)
