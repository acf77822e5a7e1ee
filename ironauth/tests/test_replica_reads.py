"""Which reads may be answered by a replica: these, and no other. None decides who somebody is or what they may do."""

import ast
from pathlib import Path

from django.conf import settings

from ironauth.tests.test_house_rules import python_files

ROOT = Path(settings.BASE_DIR)
#: What a replica may answer that is behind, IRONAUTH_REPLICA_MAX_LAG_S at most; the right to see it is the primary's.
STALE = {
    "accounts/access/listing.py: unit",  # what the next six give it, without the right
    "accounts/invitations/services.py: queries.page",
    "accounts/organizations/administration/services.py: units.page",
    "accounts/staff/services.py: audit_queries.page",
    "accounts/staff/services.py: role_units.page",
    "accounts/staff/services.py: staff_units.users_page",
    "tokens/clients/administration/services.py: units.page",
}
#: What it may answer once it has come as far as the primary was: exports, which leave nothing out.
SINCE = {
    "accounts/privacy/services.py: export.collect",
    "accounts/staff/services.py: _export_batch",
}
#: Of each way to read, which of its arguments is the unit of work.
UNIT = {"read_stale": 0, "list_for_holder": 2, "read_since": 1}


def reads(source: str, name: str) -> set[tuple[str, str]]:
    """Return the way and the unit of each read in a module; a way that is not called where it is named is one too."""
    tree = ast.parse(source)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = set()
    for node in ast.walk(tree):
        way = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if way in UNIT:
            call = called.get(id(node))
            found.add((way, f"{name}: {ast.unparse(call.args[UNIT[way]]) if call else way}"))
    return found


def test_these_reads_and_no_other_may_be_answered_by_a_replica() -> None:
    """Lists, search, the trail and exports; no sign-in, session, token, factor, client's secret or right."""
    found: set[tuple[str, str]] = set()
    for file in python_files():
        name = str(file.relative_to(ROOT))
        if "tests" not in file.parts:
            found |= reads(file.read_text(encoding="utf-8"), name)
    assert {what for way, what in found if way != "read_since"} == STALE
    assert {what for way, what in found if way == "read_since"} == SINCE


def test_a_read_that_is_passed_on_is_seen() -> None:
    """A way to read that is only named is found, with the unit of work that nobody can know."""
    source = "read = database().read_stale\nasync def f():\n    await database().read_since(at, units.find, 1)\n"
    assert reads(source, "x.py") == {("read_stale", "x.py: read_stale"), ("read_since", "x.py: units.find")}
