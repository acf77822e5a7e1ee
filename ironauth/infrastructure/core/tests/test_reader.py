"""What commands print, to somebody who may have read enough."""

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command, get_commands, load_command_class

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD, process_environment
from ironauth.infrastructure.core.stdio import READER_GONE

#: Commands that print, and end quietly with their reader; those of many lines first.
READ = {
    "audit_export", "api_resource", "authorization_details_type", "demo", "export_user", "hash_calibrate",
    "oauth_client", "backup", "breached_passwords", "build_openapi", "create_signing_key", "forgive_failures",
    "purge_expired", "reseal_secrets", "rotate_signing_key", "import_users", "export_users", "upstream_provider",
    "partition_audit", "search_index",
    "end_everybodys_sessions",
}  # fmt: skip
#: Commands that print where the server is, and serve on anybody who reads it.
SERVING = {"hashworker", "serve"}


#: The packages that have commands of ours.
OURS = {"ironauth", "accounts", "tokens"}


def commands() -> dict[str, ast.Module]:
    """Return our commands by name, each as it is written: its module, and those of ours that it inherits from."""
    found = {}
    for name, app in get_commands().items():
        if app in OURS:
            modules = {one.__module__ for one in type(load_command_class(app, name)).__mro__}
            ours = [import_module(one) for one in sorted(modules) if one.partition(".")[0] in OURS]
            found[name] = ast.parse("\n".join(map(inspect.getsource, ours)))
    return found


def writes(node: ast.AST) -> int:
    """Return how often something below the node writes to standard output."""
    return sum(ast.unparse(one).startswith("self.stdout.write(") for one in ast.walk(node) if isinstance(one, ast.Call))


def test_every_command_that_prints_may_lose_its_reader() -> None:
    """Each is named above, and each asks for it: a new one does too, or serves."""
    printing = {name: tree for name, tree in commands().items() if writes(tree)}
    assert set(printing) == READ | SERVING
    for name in READ:
        assert "ignore_broken_pipe(self.stdout)" in ast.unparse(printing[name]), name


@pytest.fixture
def unread() -> Iterator[int]:
    """A real pipe that nobody reads, as before ``| head`` that has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.live
@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_process_ends_quietly_with_its_reader(unread: int, unbuffered: str) -> None:
    """With the status a shell reports for SIGPIPE, and nothing on standard error, buffered or not; the act is done."""
    user = User.objects.create_user(email="mia@example.com", password=PASSWORD)
    ended = subprocess.run(
        [sys.executable, "manage.py", "export_user", user.email],
        cwd=settings.BASE_DIR,
        env=process_environment(PYTHONUNBUFFERED=unbuffered),
        stdout=unread,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (READER_GONE, b"")
    assert AuditEvent.objects.filter(event="data_exported", user_id=user.pk).count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "arguments"),
    [("oauth_client", ("list",)), ("export_user", ("mia@example.com",)), ("create_signing_key", ())],
)
def test_a_command_stops_where_nobody_reads(unread: int, command: str, arguments: tuple[str, ...]) -> None:
    """Called by another program too; with a reader it says what it has to."""
    User.objects.create_user(email="mia@example.com", password=PASSWORD)
    out = StringIO()
    call_command(command, *arguments, stdout=out)
    assert out.getvalue()
    with os.fdopen(os.dup(unread), "w") as pipe, pytest.raises(SystemExit) as ended:
        call_command(command, *arguments, stdout=pipe)
    assert ended.value.code == READER_GONE
