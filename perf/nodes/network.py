"""Machines on one machine: network namespaces joined by bridges, one for each thing a node can be cut off from.

The process that calls ``enter`` leaves the host's network for one of its own; nothing of the host's is changed, and
all of it vanishes with the processes in it, however they end. Linux only, and only for root.
"""

import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from perf.rig.processes import StartError

#: What each bridge carries. ``side`` is the laboratory's own way to a node, which no case cuts.
LINKS = ("side", "web", "postgres", "redis")
HUB = 1  # the last byte of this process' address on every bridge
_SETTLE_S = 10.0


def address(link: str, host: int = HUB) -> str:
    """Return the address of a host on a bridge; they exist in these namespaces alone."""
    return f"10.77.{LINKS.index(link)}.{host}"


def enter() -> None:
    """Move this process, which has one thread as yet, to a network of its own with nothing but loopback.

    Raises:
        StartError: the system allows this process no network namespace, or has no iproute2.
    """
    try:
        os.unshare(os.CLONE_NEWNET)
        run("ip", "link", "set", "lo", "up")
    except PermissionError as error:
        raise StartError("network namespaces need root (CAP_SYS_ADMIN): run this command as root") from error
    except FileNotFoundError as error:
        raise StartError("ip is not installed: apt-get install iproute2") from error


def lay(addresses: int) -> None:
    """Make the bridges; on ``web`` this process has ``addresses`` more, from 100 on, for clients.

    Raises:
        StartError: the kernel has no bridges.
    """
    for link in LINKS:
        run("ip", "link", "add", link, "type", "bridge")
        run("ip", "address", "add", f"{address(link)}/24", "dev", link)
        run("ip", "link", "set", link, "up")
    for host in range(100, 100 + addresses):
        run("ip", "address", "add", f"{address('web', host)}/24", "dev", "web")


class Machine:
    """A namespace with an interface on every bridge; ``stack`` ends it."""

    def __init__(self, name: str, host: int, stack: ExitStack) -> None:
        self.name = name
        self.host = host
        # It holds the namespace, and ends when its input does: with this process, also if that is killed.
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        stack.callback(self._close)
        self._namespace = Path(f"/proc/{self._holder.pid}/ns/net")
        self._await_namespace()
        for link in LINKS:
            self._connect(link)
        run(*self.within("ip", "link", "set", "lo", "up"))

    def address(self, link: str) -> str:
        """Return its address on a bridge."""
        return address(link, self.host)

    def within(self, *command: str) -> list[str]:
        """Return ``command`` as it runs in the namespace; it keeps its process id."""
        return ["nsenter", f"--net={self._namespace}", *command]

    def cut(self, *links: str) -> None:
        """Pull cables: what is sent either way is lost without a word, as between machines."""
        for link in links:
            run("ip", "link", "set", self._port(link), "nomaster")

    def heal(self, *links: str) -> None:
        """Plug them in again."""
        for link in links:
            run("ip", "link", "set", self._port(link), "master", link)

    def _port(self, link: str) -> str:
        """Return the name of the bridge's end of a cable; the kernel allows 15 characters."""
        return f"{self.name}-{link}"

    def _connect(self, link: str) -> None:
        port = self._port(link)
        run("ip", "link", "add", port, "type", "veth", "peer", "name", link, "netns", str(self._holder.pid))
        run("ip", "link", "set", port, "master", link, "up")
        run(*self.within("ip", "address", "add", f"{self.address(link)}/24", "dev", link))
        run(*self.within("ip", "link", "set", link, "up"))

    def _await_namespace(self) -> None:
        """Return when the holder has left this process' namespace and become ``cat``."""
        ours, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline and self._holder.poll() is None:
            there = Path(f"/proc/{self._holder.pid}/comm").read_text(encoding="utf-8").strip()
            if there == "cat" and self._namespace.readlink() != ours:
                return
            time.sleep(0.01)
        raise StartError("no network namespace for a node: this needs root and util-linux")

    def _close(self) -> None:
        self._holder.communicate()


def run(*command: str) -> str:
    """Run a command of the system and return what it prints.

    Raises:
        StartError: it failed; the message has its words.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
