"""nginx with the files of deploy/ as they are, but for paths, ports and the server behind it."""

import os
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ironauth.tests.deploy.certificates import Authority
from perf.rig import nginx
from perf.rig.processes import StartError, free_port
from perf.rig.site_setup import ROOT

HOST: Final = "id.example.com"  # as the files call it
_START_S: Final = 15.0


class ShippedNginx:
    """Ends TLS on a loopback port, in front of a server on another; ``stack`` ends it."""

    def __init__(self, folder: Path, server: tuple[str, int], stack: ExitStack) -> None:
        """Raises ``StartError`` when nginx is not installed or refuses its configuration."""
        binary = nginx.find()
        folder.mkdir(mode=0o700)
        authority = Authority(folder)
        authority.certify(HOST, folder / "tls")
        self.https, http = free_port(), free_port()
        self.certificates = authority.file
        host, port = server
        here = (
            (" /tmp/", f" {folder}/"), ("/etc/nginx/ironauth/", f"{folder}/conf/"),
            ("/etc/ironauth/tls/", f"{folder}/tls/"), ("/var/log/nginx/", f"{folder}/"),
            ("unix:/run/ironauth/web.sock", f"{host}:{port}"), ("/var/www/acme", f"{folder}/acme"),
            ("listen 443 ", f"listen 127.0.0.1:{self.https} "), ("listen 80", f"listen 127.0.0.1:{http}"),
        )  # fmt: skip
        (folder / "conf").mkdir()
        for file in (ROOT / "deploy" / "nginx").iterdir():
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            text = "".join(line for line in lines if "listen [::]:" not in line)  # the machine may have no IPv6
            for written, ours in here:
                text = text.replace(written, ours)
            (folder / "conf" / file.name).write_text(text, encoding="utf-8")
        options = "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"  # its workers read this folder
        command = [binary, "-p", str(folder), "-e", "stderr", "-c", str(folder / "conf" / "nginx.conf"), "-g", options]
        with (folder / "output.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        stack.callback(self._stop)
        deadline = time.monotonic() + _START_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.https)) == 0:
                    return
            time.sleep(0.02)
        raise StartError(f"nginx does not listen: {(folder / 'output.log').read_text(errors='replace')[-2000:]}")

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def trust(certificates: Path) -> ssl.SSLContext:
    """Return a client's TLS that trusts what this authority vouches for alone."""
    return nginx.client_context_of(certificates)
