"""A replica of the site's Postgres."""

import os
import shutil
import subprocess

import psycopg

from ironauth.tests.services import PrivatePostgres, find_binary


class Standby(PrivatePostgres):
    """A copy of a primary that follows it."""

    def copy(self, primary_port: int) -> None:
        """Make it of the primary on that port of this machine."""
        self.folder.mkdir()
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(self.folder, user)
        program = find_binary("pg_basebackup", "postgresql-client")
        options = ["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D", str(self.folder / "data")]
        primary = ["-h", "127.0.0.1", "-p", str(primary_port), "-U", "postgres"]
        subprocess.run([program, *primary, *options], check=True, user=user, cwd=self.folder)

    def ask(self, query: str) -> None:
        """Have it do something."""
        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute(query.encode())
