"""What the product refuses people with is translated where it is written, also what no walk through the pages meets."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.conf import settings

from ironauth.infrastructure.core.errors import DomainError
from ironauth.tests.languages.marked import catalogues
from tokens.clients.errors import OAuthError
from tokens.oauth.authorize.request import Unanswerable

ROOT: Final = Path(settings.BASE_DIR)
#: Where people's own forms end up. What staff and programs alone meet stays English.
ROOMS: Final = (
    "accounts/*.py", "accounts/email", "accounts/federation", "accounts/invitations", "accounts/lazy_migration",
    "accounts/lockout", "accounts/mfa", "accounts/own_account", "accounts/pages", "accounts/passwords/*.py",
    "accounts/privacy", "accounts/users", "tokens/access", "tokens/oauth/accounts", "tokens/oauth/authorize",
    "tokens/oauth/consent", "tokens/oauth/device", "tokens/oauth/logout", "tokens/sessions", "tokens/sign_in",
    "tokens/upstream",
)  # fmt: skip
APPS: Final = ("ironauth", "accounts", "tokens")
#: Scripts of the admin, and of the documentation.
ENGLISH: Final = frozenset({"copy.js", "docs.js", "lists.js", "second_step.js"})
_QUOTED: Final = re.compile(r""""[^"\n]*"|'[^'\n]*'|`[^`]*`""")
STAFF: Final = (
    "admin.py",
    "admin_forms.py",
    "models.py",
    "acting/",
    "administration/",
    "migrations/",
    "tests/",
    "/kinds/",
)
#: Sentences of the API that no page shows: it has one of its own in their place, or nobody gets there by a page.
OF_THE_API: Final = frozenset({
    # The fields of a project's own.
    "This cannot be stored as it is.",
    # Staff's calls.
    "There is no user with this id.",
    "There is no sign-in provider of this short name that keeps tokens.",
    "People's tokens at providers are for machines alone: no person gets them.",
    "Control characters cannot be searched for: leave them out.",
    "Search for at most {} characters.",
    "This cursor does not belong to {}: start without one.",
    "This person has no app for one-time codes.",
    "This person has allowed no such application.",
    "A role name has at most {} letters, digits, spaces and . _ : - inside, from A to Z.",
    "Sign-up is closed (IRONAUTH_SIGN_UP): an invitation would open nothing.",
    "This is your own account: remove your factors there, or ask a colleague.",
    "Write a permission as app_label.codename, e.g. accounts.view_user.",
    # Pages have a sentence of their own (``accounts.pages.refusals``).
    "You have allowed no such application: see /api/v1/access/consents for those you have.",
    "You have no such device: see /api/v1/access/kept-devices for those you have.",
    "You have no such passkey: see /api/v1/access/mfa for those you have.",
    "You have no such session: see /api/v1/access/sessions for those you have.",
    # Pages choose no organization for a session.
    "You belong to no organization of this id or slug.",
    # Pages send people to sign in.
    "Send the refresh token here or in its cookie.",
    "Several Authorization headers: send exactly one.",
})  # fmt: skip


def _kinds(kind: type[DomainError]) -> Iterator[type[DomainError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)


#: What reaches people; an application hears an ``OAuthError`` in English (RFC 6749 §4.1.2.1).
REFUSALS: Final = {
    *(kind.__name__ for kind in _kinds(DomainError) if not issubclass(kind, OAuthError)), Unanswerable.__name__,
    "DomainError", "FieldError", "Refusal", "ValidationError",
}  # fmt: skip


def files() -> list[Path]:
    """Return the modules of the rooms."""
    found = []
    for room in ROOMS:
        here = ROOT.glob(room) if "*" in room else (ROOT / room).rglob("*.py")
        found += [path for path in here if not any(part in path.as_posix() for part in STAFF)]
    assert len(found) > 100
    return found


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every sentence that a refusal is made with, {} in the place of what is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in REFUSALS:
            given = (*node.args, *(one.value for one in node.keywords if one.arg != "headers"))
            for one in given:
                text = _text(one)
                if " " in text.strip():
                    yield node.lineno, text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_":
        return _text(node.args[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_every_refusal_is_translated_where_it_is_written() -> None:
    """No sentence is filled in before it is translated, and every other one is in the catalogue of each language."""
    known = catalogues()
    found = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in files()
        for line, text in sentences(ast.parse(path.read_text()))
        if text not in OF_THE_API and not all(text in one or (text, 0) in one for one in known)
    ]
    said = "\n".join(found)
    assert not found, f"mark it for translation, or where no page of people shows it, list it in OF_THE_API:\n{said}"


def test_no_script_of_a_page_has_a_sentence() -> None:
    """What a script says comes from its page, which is translated."""
    scripts = [path for app in APPS for path in (ROOT / app / "static" / app).glob("*.js") if path.name not in ENGLISH]
    assert len(scripts) > 4
    for path in scripts:
        code = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        said = [text for text in _QUOTED.findall(code) if re.match(r"\W*[A-Z][a-z]+[ .]", text[1:-1])]
        assert not said, path
