"""What is asked of etcd, where Patroni's machines agree on who is the primary."""

import subprocess
from collections.abc import Sequence

import msgspec

from ironauth.tests.services import find_binary
from perf.failover.machines import DatabaseMachine
from perf.nodes import network


def etcdctl(machine: DatabaseMachine, *command: str) -> str:
    """Return what a command of etcdctl prints that is asked of one machine's etcd.

    Raises:
        StartError: It failed.
    """
    program = find_binary("etcdctl", "etcd-client")
    return network.run("env", "ETCDCTL_API=3", program, f"--endpoints=http://{machine.address}:2379", *command)


def version() -> str:
    """Return the version of the etcd that the machines run."""
    told = subprocess.run([find_binary("etcd", "etcd-server"), "--version"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0].rpartition(" ")[2]


def lead(machine: DatabaseMachine, machines: Sequence[DatabaseMachine]) -> None:
    """Let that machine's etcd lead the others: it keeps the time of everybody's leases then.

    Args:
        machine: Of the machines.
        machines: All of them.

    Raises:
        StartError: etcd did not do so.
    """
    told = {one.name: _status(one) for one in machines}
    member, leader = told[machine.name]
    leading = next(one for one in machines if told[one.name][0] == leader)
    if leading is not machine:
        etcdctl(leading, "move-leader", f"{member:x}")


def _status(machine: DatabaseMachine) -> tuple[int, int]:
    """Return the ids of the machine's etcd, and of the one that leads."""
    (said,) = msgspec.json.decode(etcdctl(machine, "endpoint", "status", "--write-out=json"))
    return said["Status"]["header"]["member_id"], said["Status"]["leader"]
