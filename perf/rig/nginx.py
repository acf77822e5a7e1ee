"""nginx with the files of deploy/nginx as they are shipped, but for paths, ports and the servers behind it."""

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from ironauth.tests.deploy.certificates import Authority
from perf.rig.processes import StartError
from perf.rig.site_setup import ROOT

HOST = "id.example.com"  # as the files of deploy/ call the site
_SBIN = ("/usr/sbin", "/usr/local/sbin")  # where Debian and others keep it, outside of a user's PATH
_IPV6 = re.compile(
    r"^ *listen \[::\]:.*\n", re.MULTILINE
)  # the machine may have none: docs/operate/deploy.md drops these lines


def find() -> str:
    """Return the path of nginx.

    Raises:
        StartError: there is none.
    """
    found = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN)))
    if found is None:
        raise StartError("nginx is not installed: apt-get install nginx-light")
    return found


def copy_files(folder: Path, changes: Iterable[tuple[str, str]]) -> Authority:
    """Write deploy/nginx into ``folder``/conf and a certificate into ``folder``/tls; return who vouches for it.

    Args:
        folder: everything that nginx reads and writes is below it; it is made.
        changes: further texts of the files, each with what replaces it.
    """
    folder.mkdir(mode=0o700)
    authority = Authority(folder)
    authority.certify(HOST, folder / "tls")
    (folder / "conf").mkdir()
    here = (
        (" /tmp/", f" {folder}/"), ("/var/log/nginx/", f"{folder}/"), ("/etc/nginx/ironauth/", f"{folder}/conf/"),
        ("/etc/ironauth/tls/", f"{folder}/tls/"), *changes,
    )  # fmt: skip
    for file in (ROOT / "deploy" / "nginx").iterdir():
        text = _IPV6.sub("", file.read_text(encoding="utf-8"))
        for written, ours in here:
            text = text.replace(written, ours)
        (folder / "conf" / file.name).write_text(text, encoding="utf-8")
    return authority


def start(folder: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    """Start nginx with the files in ``folder``, which ``stack`` ends; what it says is in ``folder``/output.log.

    Raises:
        StartError: nginx is not installed.
    """
    options = "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"  # its workers read this folder
    command = [find(), "-p", str(folder), "-e", "stderr", "-c", str(folder / "conf" / "nginx.conf"), "-g", options]
    with (folder / "output.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


@cache
def trust(certificates: Path) -> ssl.SSLContext:
    """Return a client's TLS 1.3 that trusts what this authority vouches for alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(certificates)
    return context
