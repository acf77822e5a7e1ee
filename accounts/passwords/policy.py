"""Which new passwords are refused, and why: length and a blocklist, no composition rules (SP 800-63B-4 §3.1.1.2).

The blocklist is judged on the *whole* password: a long passphrase that merely contains a bad word is accepted. Lists of
leaked passwords are nearly empty at 15 characters, so the password is also looked at without its decoration: digits and
symbols around it, separators, leet spelling, repetition. It is refused when the rest is a common password, a walk over
a keyboard or an alphabet, or made of the person's own name and address.

``breached_passwords`` is asked as well, wherever a password is set: it reads the disk and may ask a service, and these
rules do not.
"""

import unicodedata
from typing import Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from accounts.passwords import breached as breached_passwords
from accounts.passwords import breached_service, context_words, formats, weak_patterns
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed

_SHORTEST_FORM: Final = 3  # characters; the shortest name that is looked for
_SHORTEST_WORD: Final = 4  # characters; shorter entries of the common list say nothing about a long password
_LONGEST_UNIT: Final = 6  # characters; a longer unit repeated is refused only if it is itself bad
# Characters after NFKC, which can make eighteen of one: nobody decorates a longer password, and undoing what nobody did
# took 150 ms of the event loop.
_LONGEST_JUDGED: Final = 256
_MAX_FORMS: Final = 40  # a bound on the search; no password of people needs more than a dozen


def policy_errors(password: str, *, email: str = "", name: str = "", field: str = "password") -> list[FieldError]:
    """Return why ``password`` may not be chosen by this person, as errors of ``field``; empty if it may.

    Args:
        password: What was chosen, in clear.
        email: The person's address, whose parts make a password weak.
        name: The person's name, whose parts make a password weak.
        field: The input field that the errors are told of.
    """
    text = formats.normalised(password) if len(password) <= 4 * formats.MAX_LENGTH else password
    if len(text) > formats.MAX_LENGTH:
        message = gettext("The password has more than {most} characters: choose a shorter one.").format(
            most=formats.MAX_LENGTH
        )
        return [FieldError(field, "password_too_long", message)]
    shortest = settings.IRONAUTH_PASSWORD_MIN_LENGTH
    if len(text) < shortest:
        message = gettext(
            "The password has {found} characters, at least {shortest} are needed: several words are easiest."
        ).format(found=len(text), shortest=shortest)
        return [FieldError(field, "password_too_short", message)]
    # Fifteen times one emoji is fifteen code points (ASVS 6.2.1), and in no attacker's first lists.
    one_emoji = len(set(text)) == 1 and unicodedata.category(text[0]) == "So"
    weakness = None if one_emoji else _weakness(text, email=email, name=name)
    return [FieldError(field, *weakness)] if weakness else []


def require_policy(password: str, *, email: str, name: str, field: str) -> None:
    """Raise ``ValidationFailed`` with the reasons if the policy refuses ``password``.

    Args:
        password: What was chosen, in clear.
        email: The person's address, whose parts make a password weak.
        name: The person's name, whose parts make a password weak.
        field: The input field that the errors are told of.
    """
    if reasons := policy_errors(password, email=email, name=name, field=field):
        raise ValidationFailed(errors=reasons)


def _weakness(text: str, *, email: str, name: str) -> tuple[str, str] | None:
    """Return the code and message of the first weakness of the whole password."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    too_long_for_more = len(plain) > _LONGEST_JUDGED
    forms = (plain,) if too_long_for_more else _forms(plain)
    substantial = [form for form in forms if 2 * len(form) >= len(plain)]
    if any(weak_patterns.is_repetition(form, _LONGEST_UNIT) for form in substantial):
        return "password_repetitive", gettext("The password repeats a few characters: choose several different words.")
    if too_long_for_more:
        return None
    if any(weak_patterns.is_walk(form) for form in forms):
        return (
            "password_sequential",
            gettext("The password follows the keyboard or an alphabet: choose several different words."),
        )
    words = context_words.of(email=email, name=name)
    spellings = {context_words.spelled_with(form, words) for form in forms}
    if "context" in spellings:
        return (
            "password_contextual",
            gettext("The password is made of the name, the address or this service's name: choose other words."),
        )
    if "fillers" in spellings or any(weak_patterns.is_common(form) for form in forms if len(form) >= _SHORTEST_WORD):
        return (
            "password_too_common",
            gettext("The password is among the first an attacker tries: choose several different words."),
        )
    return None


def _forms(plain: str) -> tuple[str, ...]:
    """Return ``plain`` and what is left of it after each combination of decorations is taken off."""
    forms = [plain]
    for form in forms:
        if len(forms) > _MAX_FORMS:
            break
        for simpler in weak_patterns.simplified(form):
            if len(simpler) >= _SHORTEST_FORM and simpler not in forms:
                forms.append(simpler)
    return tuple(forms)


class PasswordPolicyValidator:
    """The policy as a Django password validator: the admin and ``createsuperuser`` use the same rules."""

    def validate(self, password: str, user: object | None = None) -> None:
        """Raise ``ValidationError`` with every reason, each with its code."""
        found = policy_errors(password, email=getattr(user, "email", "") or "", name=getattr(user, "name", "") or "")
        if found:
            raise ValidationError([ValidationError(error.message, code=error.code) for error in found])
        digest = breached_passwords.sha1_of(password)
        if breached_passwords.is_breached(password) or breached_service.knows_in_thread(digest):
            raise ValidationError(breached_passwords.MESSAGE, code=breached_passwords.CODE)

    def get_help_text(self) -> str:
        """Return what a form says beside the field."""
        return (
            f"At least {settings.IRONAUTH_PASSWORD_MIN_LENGTH} characters, spaces too. No common password, "
            "keyboard row or repetition, nor the name or address of the account with digits around it. "
            "Several words are easiest."
        )
