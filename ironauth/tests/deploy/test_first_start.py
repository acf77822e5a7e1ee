"""What is done once by hand: secrets are drawn, a backup of SQLite is made, and the runbook names what exists."""

import os
import re
import shutil
import sqlite3
import ssl
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings

from ironauth import settings_test
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.tests.deploy.files import DEPLOY, runbook
from ironauth.tests.test_boot import SHOWN, start

MADE = {"env": 0o600, "userlist.txt": 0o644, "database-password": 0o644, "postgres-password": 0o644}


def _draw(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(DEPLOY / "make-secrets.sh"), "id.example.com", str(folder), *more]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_secrets_are_drawn_once(tmp_path: Path) -> None:
    """The server takes them; the folder is closed; a second time nothing is replaced, and another folder has others."""
    folder = tmp_path / "secrets"
    assert _draw(folder, "127.0.0.1:6432").returncode == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first = {file.name: file.read_text() for file in folder.iterdir()}
    assert {name: stat.S_IMODE((folder / name).stat().st_mode) for name in first} == MADE
    password = first["database-password"]
    assert first["userlist.txt"] == f'"ironauth" "{password}"\n'
    assert f"DATABASE_URL=postgres://ironauth:{password}@127.0.0.1:6432/ironauth\n" in first["env"]
    values = dict(line.split("=", 1) for line in first["env"].splitlines() if not line.startswith("#"))
    shown = start(["-c", SHOWN], {"IRONAUTH_ENV_FILE": os.devnull, "IRONAUTH_COOKIE_SECURE": "1", **values})
    assert shown.stdout == "False True https://id.example.com ['id.example.com']\n", shown.stderr
    again = _draw(folder)
    assert again.returncode == 1
    assert again.stderr.endswith("use what is there, or name another FOLDER.\n")
    assert {file.name: file.read_text() for file in folder.iterdir()} == first
    _draw(tmp_path / "other")
    drawn = ("SECRET_KEY=", "IRONAUTH_MASTER_KEYS=", "IRONAUTH_PASSWORD_PEPPERS=")
    lines = [line for line in first["env"].splitlines() if line.startswith(drawn)]
    assert len(lines) == len(drawn)
    assert not set(lines) & set((tmp_path / "other" / "env").read_text().splitlines())


@pytest.mark.live
def test_a_backup_of_sqlite_is_whole_while_it_is_written(tmp_path: Path) -> None:
    """The runbook's command copies what is committed, from the log beside the file too, and not what is not."""
    file, backup = tmp_path / "ironauth.sqlite3", tmp_path / "backup"
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE sessions (id)")
        writer.execute("INSERT INTO sessions VALUES (1)")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO sessions VALUES (2)")
        _postgres, lines = runbook("Backup")
        lines = lines.replace(".venv/bin/python", sys.executable)
        env = {"PATH": os.environ["PATH"], **settings_test.ENVIRONMENT, "DATABASE_URL": f"sqlite:///{file}"}
        env |= {"BACKUP": str(backup), "DJANGO_SETTINGS_MODULE": "ironauth.settings"}
        subprocess.run(["sh", "-euc", lines], env=env, check=True, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with closing(sqlite3.connect(backup)) as copy:
        assert copy.execute("SELECT id FROM sessions").fetchall() == [(1,)]
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_certificates_for_hash_workers_are_made_by_the_runbook(tmp_path: Path) -> None:
    """Each end takes the other's, a node by the name it knows; another CA's and another name are refused."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is not installed (Debian: apt install openssl)")
        pytest.skip("openssl is not installed (Debian: apt install openssl)")
    (lines,) = runbook("Hash workers")
    for folder, name in (("ours", "hash1.internal"), ("ours", "node1.internal"), ("theirs", "node1.internal")):
        (tmp_path / folder).mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "NAME": name}
        subprocess.run(["sh", "-euc", lines], env=env, cwd=tmp_path / folder, check=True, capture_output=True)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("*/*")} == {0o600}

    def meets(folder: str, name: str) -> bool:
        """Tell whether a node with its certificate of ``folder`` and the worker, as ``name``, understand each other."""
        ours, files = tmp_path / "ours", tmp_path / folder
        ca = ours / "hash-ca.crt"
        worker = hash_worker_trust.context(
            server=True, cert=ours / "hash1.internal.crt", key=ours / "hash1.internal.key", ca=ca
        )
        node = hash_worker_trust.context(
            server=False, cert=files / "node1.internal.crt", key=files / "node1.internal.key", ca=ca
        )
        sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (
            node.wrap_bio(received, sent, server_hostname=name),
            worker.wrap_bio(sent, received, server_side=True),
        )
        done = 0
        for end in ends * 3:  # a flight each
            try:
                end.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
        return done > len(ends)

    assert meets("ours", "hash1.internal")
    assert not meets("ours", "hash2.internal")
    assert not meets("theirs", "hash1.internal")


@pytest.mark.parametrize("title", ["First start, in containers", "First start, on Debian", "Hash workers"])
def test_the_runbook_names_files_that_exist(title: str) -> None:
    """Every path below deploy/ in its commands is there, but for what they make."""
    (commands,) = runbook(title, "")
    named = set(re.findall(r"\bdeploy/([\w./-]+\w)", commands)) - {"secrets/env"}
    assert named
    assert not [name for name in named if not (DEPLOY / name).exists()]
