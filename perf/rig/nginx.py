"""A private nginx that ends TLS 1.3 on loopback and passes requests on to Unix sockets, and its certificate."""

import os
import pwd
import shutil
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perf.rig.processes import Server, StartError, free_port

LOOPBACK = "127.0.0.1"
IDLE_UPSTREAMS = 64  # connections kept to each socket: more than the load generator opens
REQUESTS = 100_000_000  # on one connection, both sides: nginx' 1,000 would put handshakes into every window
_CERTIFICATE_LIFE = timedelta(days=1)
_SBIN = ("/usr/sbin", "/usr/local/sbin")  # where Debian and others keep it, outside of a user's PATH

_MAIN = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 1024; }}
http {{
    access_log off;  # the application writes one
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests {requests};
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    ssl_protocols TLSv1.3;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
    server {{
        listen {loopback}:{status};
        location / {{ return 200; }}
    }}
{sites}
}}
"""
_SITE = """\
    upstream {name} {{
        server unix:{socket};
        keepalive {idle};
        keepalive_requests {requests};
    }}
    server {{
        listen {loopback}:{plain};
        listen {loopback}:{tls} ssl;
        location / {{ proxy_pass http://{name}; }}
    }}
"""


@dataclass(frozen=True)
class Site:
    """One application behind nginx: its socket, and the loopback ports that lead there without and with TLS."""

    socket: Path
    plain: int
    tls: int


@dataclass(frozen=True)
class Nginx:
    """A running nginx, its sites by name, and a context that believes its certificate."""

    server: Server
    sites: Mapping[str, Site]
    context: ssl.SSLContext


def start(folder: Path, sockets: Mapping[str, Path], stack: ExitStack) -> Nginx:
    """Start nginx in front of ``sockets``, whose servers may start later; ``stack`` ends it. ``folder`` is its own.

    Raises:
        StartError: nginx is not installed, or refused its configuration.
    """
    binary = find()
    folder.mkdir(mode=0o700)
    write_certificate(folder)
    sites = {name: Site(socket, free_port(), free_port()) for name, socket in sockets.items()}
    status = free_port()
    (folder / "nginx.conf").write_text(configuration(folder, sites, status), encoding="utf-8")
    command = [binary, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    server = Server(command, folder=folder, port=status, environment=os.environ, log=folder / "output.log")
    return Nginx(stack.enter_context(server), sites, client_context(folder))


def find() -> str:
    """Return the path of nginx.

    Raises:
        StartError: there is none.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN))
    found = shutil.which("nginx", path=path)
    if found is None:
        raise StartError("nginx is not installed: apt-get install nginx-light")
    return found


def configuration(folder: Path, sites: Mapping[str, Site], status: int) -> str:
    """Return nginx' configuration; the port ``status`` answers 200 as soon as it runs."""
    # Workers of a root's nginx would be "nobody", who cannot reach the sockets in a folder of this user alone.
    user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
    blocks = [
        _SITE.format(
            name=name,
            socket=site.socket,
            plain=site.plain,
            tls=site.tls,
            idle=IDLE_UPSTREAMS,
            requests=REQUESTS,
            loopback=LOOPBACK,
        )
        for name, site in sites.items()
    ]
    return _MAIN.format(
        folder=folder, user=user, requests=REQUESTS, loopback=LOOPBACK, status=status, sites="\n".join(blocks)
    )


def write_certificate(folder: Path) -> None:
    """Make a P-256 key and a certificate for the loopback address that signs itself, good for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "benchmark")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + _CERTIFICATE_LIFE)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").touch(mode=0o600)
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def client_context(folder: Path) -> ssl.SSLContext:
    """Return a client's context that speaks TLS 1.3 and believes the certificate in ``folder`` alone."""
    return client_context_of(folder / "certificate.pem")


def client_context_of(certificate: Path) -> ssl.SSLContext:
    """Return a client's context that speaks TLS 1.3 and believes that certificate, or what it vouches for, alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(certificate)
    return context
