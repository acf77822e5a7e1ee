"""Peers on the command line."""

import argparse
import os
import sys
from pathlib import Path

import pytest

from perf.bench.peers import Peer, PeerError, add_arguments, chosen
from perf.load.closed_loop import run_load
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import ROOT


def peers(*arguments: str) -> tuple[Peer, ...]:
    """Read a command line."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return chosen(parser.parse_args(arguments), taken=("bare", "me"))


def test_a_peer_is_a_name_and_a_url_of_this_machine() -> None:
    """Address, host, path and query are taken from the URL; localhost, IPv6 and the default port are understood."""
    plain, other = peers("--peer", "irontrack=http://127.0.0.1:9000/me?a=b", "--peer", "x=http://localhost")
    assert (plain.address, plain.host, plain.path) == (("127.0.0.1", 9000), "127.0.0.1:9000", "/me?a=b")
    assert (other.address, other.host, other.path) == (("127.0.0.1", 80), "localhost", "/")
    assert peers("--peer", "six=http://[::1]:9000/")[0].address == ("::1", 9000)


def test_credentials_are_sent_and_not_shown() -> None:
    """Token and cookie go into the request of their peer alone; neither they nor the query are in what is reported."""
    arguments = ["--peer", "a=http://127.0.0.1:9000/me?key=k1", "--peer", "b=http://127.0.0.1:9001/"]
    first, second = peers(*arguments, "--peer-bearer", "a=to.k=en", "--peer-cookie", "b=name=value")
    (source,), (plain,) = first.sources(1), second.sources(1)
    assert source.next_request() == (
        b"GET /me?key=k1 HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nAuthorization: Bearer to.k=en\r\n\r\n"
    )
    assert plain.next_request() == b"GET / HTTP/1.1\r\nHost: 127.0.0.1:9001\r\nCookie: name=value\r\n\r\n"
    assert first.url == "http://127.0.0.1:9000/me"
    assert "to.k=en" not in repr(first)
    assert "value" not in repr(second)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--peer", "x=http://192.0.2.1/"], "only http URLs of this machine"),
        (["--peer", "x=http://example.com/"], "give an http URL with a loopback address"),
        (["--peer", "x=https://127.0.0.1/"], "only http URLs"),
        (["--peer", "x=http://u:p@127.0.0.1/"], "no password"),
        (["--peer", "x=http://127.0.0.1:99999/"], "give an http URL"),
        (["--peer", "x"], "give an http URL"),
        (["--peer", "x=http://127.0.0.1/a b"], "cannot stand in a request"),
        (["--peer", "me=http://127.0.0.1/"], "'me' cannot name a peer"),
        (["--peer", "A=http://127.0.0.1/"], "'A' cannot name a peer"),
        (["--peer", "x=http://127.0.0.1/", "--peer", "x=http://127.0.0.1/"], "each name once"),
        (["--peer-bearer", "x=t"], "there is no peer 'x'"),
        (["--peer", "x=http://127.0.0.1/", "--peer-cookie", "x=a\r\nX: y"], "visible ASCII"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: list[str], reason: str) -> None:
    """Other machines, passwords in URLs, taken names, credentials of nobody and field injection are all refused."""
    with pytest.raises(PeerError, match=reason):
        peers(*arguments)


def test_a_peer_is_measured(tmp_path: Path) -> None:
    """A server the operator started answers in the closed loop."""
    port = free_port()
    command = [sys.executable, "-m", "perf.rig.bare_asgi", "--port", str(port)]
    with Server(command, folder=ROOT, port=port, environment=dict(os.environ), log=tmp_path / "log"):
        (peer,) = peers("--peer", f"bare2=http://127.0.0.1:{port}/")
        result = run_load(peer.address, peer.sources(2), seconds=0.6)
    assert result.latencies_ns
    assert not result.failures
