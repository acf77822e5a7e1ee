"""Try a built image without an engine: ``python -m ironauth.tests.deploy.image_trial ARCHIVE TREE SCRATCH``.

``.ci/image`` calls it as root. ``TREE`` is the image's unpacked file system. Its own command runs in namespaces of its
own (mounts, processes, network) as an engine would run it with ``--read-only --cap-drop ALL --security-opt
no-new-privileges``: as PID 1, as the image's user, nothing writable but the volume.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ironauth.tests.container_recipe import IgnoreFile, follow_copies, stages

ROOT = Path(__file__).parents[3]
RECIPE = ROOT / "deploy" / "Dockerfile"
START_S = 120  # from nothing to the first healthy answer: migrations and keys, on a busy machine
STOP_S = 10  # SIGTERM to the end, as docs/operate/container.md promises
ISSUER = "http://127.0.0.1:8000"
OURS = ("accounts", "ironauth", "tokens")

#: The first process of the namespaces: it makes the file system, then becomes the image's command.
#: Arguments: file for its number outside, tree, volume's folder inside, volume's folder outside, user, group, command.
ENTER = """
read -r number _ < /proc/self/stat
tree=$2 user=$5 group=$6
mount --bind "$tree" "$tree"
mount --bind "$4" "$tree$3"
mount -t tmpfs -o mode=0755 tmpfs "$tree/dev"
for device in null zero full random urandom; do
    : > "$tree/dev/$device"
    mount --bind "/dev/$device" "$tree/dev/$device"
done
mount -o remount,ro "$tree/dev"
mount -t proc proc "$tree/proc"
mount -o remount,bind,ro "$tree"
ip link set lo up
echo "$number" > "$1"
shift 6
cd "$tree"
exec chroot "$tree" setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs \
    --inh-caps=-all --bounding-set=-all "$@"
"""

FIRST_TOKEN = """
import json, sys, urllib.error, urllib.request
issuer, person = sys.argv[1], json.loads(sys.argv[2])
def ask(path, body=None, token=""):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(issuer + path, body and json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{path}: {error.code} {error.read().decode()[:300]}")
ask("/api/v1/access/signup", person)
token = ask("/api/v1/access/signin", person)["access_token"]
assert ask("/api/v1/access/me", token=token)["email"] == person["email"]
"""

READ_ONLY = """
for place in /opt/ironauth /tmp /var/tmp /dev /etc /run; do
    if (: > "$place/written") 2>/dev/null; then echo "$place is writable" >&2; exit 1; fi
done
: > "$1/written" && rm "$1/written"
"""


class Wrong(Exception):
    """The image does not do what it should."""


@dataclass(frozen=True)
class Image:
    """What an OCI image's configuration says, which an engine would follow."""

    user: str
    group: str
    command: list[str]
    environment: dict[str, str]
    folder: str
    volume: str
    stop_signal: signal.Signals

    @classmethod
    def of(cls, archive: Path) -> Self:
        """Read the configuration of the only image in an OCI archive.

        Raises:
            Wrong: It has no user with a number other than 0, or not one volume.
        """
        with tarfile.open(archive) as tar:

            def read(name: str) -> Any:
                member = tar.extractfile(name)
                assert member is not None, name
                return json.load(member)

            def blob(descriptor: Mapping[str, Any]) -> Any:
                return read("blobs/" + descriptor["digest"].replace(":", "/"))

            (described,) = read("index.json")["manifests"]
            config = blob(blob(described)["config"])["config"]
        user, _, group = config.get("User", "").partition(":")
        volumes = list(config.get("Volumes", {}))
        if not (user.isdecimal() and group.isdecimal() and int(user) and int(group)):
            raise Wrong(f"the image's user is {config.get('User')!r}, wanted a number and a group other than 0")
        if len(volumes) != 1:
            raise Wrong(f"the image's volumes are {volumes}, wanted one")
        return cls(
            user,
            group,
            [*config["Entrypoint"], *config["Cmd"]],
            dict(line.split("=", 1) for line in config["Env"]),
            config["WorkingDir"],
            volumes[0],
            signal.Signals[config["StopSignal"]],
        )


def shipped() -> set[str]:
    """Return the places of the files that the Dockerfile ships of what git knows."""
    ignored = IgnoreFile(RECIPE.with_name(f"{RECIPE.name}.dockerignore").read_text(encoding="utf-8"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    recipe = stages(RECIPE.read_text(encoding="utf-8"))
    follow_copies(recipe, [name for name in listed.split("\0") if name and not ignored.ignores(name)])
    return set(recipe[-1].files)


def judge_files(tree: Path, home: str) -> int:
    """Compare our files in the image with those that the Dockerfile should ship of what git knows.

    Args:
        tree: The image's file system.
        home: The folder of the product in it.

    Returns:
        How many files of ours there are.

    Raises:
        Wrong: One is missing, or is there and should not be.
    """
    wanted = shipped()
    place = tree / home.lstrip("/")
    found = {
        f"{home}/{file.relative_to(place)}"
        for top in OURS
        for file in (place / top).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    } | {f"{home}/{file.name}" for file in place.glob("*.*") if file.is_file()}
    if missing := sorted(wanted - found):
        raise Wrong(f"{len(missing)} files are not in the image: {missing[:5]}")
    if unknown := sorted(found - wanted):
        raise Wrong(f"{len(unknown)} files in the image are not committed or should stay outside: {unknown[:5]}")
    return len(found)


class Container:
    """The image's command in namespaces of its own; a context manager that leaves nothing behind."""

    def __init__(self, image: Image, tree: Path, scratch: Path) -> None:
        self._image = image
        self._state = scratch / "state"
        self._state.mkdir(parents=True, mode=0o700)
        subprocess.run(["chown", f"{image.user}:{image.group}", str(self._state)], check=True)
        self._number = scratch / "number"
        self._log = scratch / "served"
        settings = {
            "DEBUG": "0",
            "SECRET_KEY": secrets.token_urlsafe(48),
            "IRONAUTH_MASTER_KEYS": f"k1:{secrets.token_urlsafe(32)}",
            "IRONAUTH_PASSWORD_PEPPERS": f"p1:{secrets.token_urlsafe(32)}",
            "ALLOWED_HOSTS": "127.0.0.1",
            "IRONAUTH_ISSUER": ISSUER,
        }
        self._variables = [f"{name}={value}" for name, value in (image.environment | settings).items()]
        arguments = [self._number, tree, image.volume, self._state, image.user, image.group]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child=KILL",
                 "sh", "-euc", ENTER, "sh", *map(str, arguments), *self._started(image.command)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The first process itself, with which its namespace ends: the kernel forgets --kill-child as the user changes.
        if self._process.poll() is None:
            if number := self.pid:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.wait()

    def _started(self, command: Sequence[str]) -> list[str]:
        """Return a command with the image's folder and environment, and nothing of this machine's."""
        return ["env", "-i", f"--chdir={self._image.folder}", *self._variables, *command]

    def said(self) -> str:
        """Return the end of what the command wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]

    @property
    def pid(self) -> int:
        """The number of the image's first process, as this machine counts; 0 until its file system is made."""
        return int(self._number.read_text() or 0) if self._number.exists() else 0

    def run(self, command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command beside the first process, as the same user, as ``docker exec`` does."""
        image = self._image
        return subprocess.run(
            ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--ipc", "--root", "--wd",
             "/usr/bin/setpriv", "--reuid", image.user, "--regid", image.group, "--clear-groups", "--no-new-privs",
             "--inh-caps=-all", "--bounding-set=-all", *self._started(command)],
            input=text, check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def wait_until(self, healthy: Sequence[str]) -> None:
        """Wait until the health check of the image succeeds.

        Raises:
            Wrong: The command ended, or was not healthy within ``START_S``.
        """
        end = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < end:
            if self.pid and self.run(healthy).returncode == 0:
                return
            time.sleep(0.5)
        raise Wrong(f"not healthy within {START_S} s, status {self._process.poll()}:\n{self.said()}")

    def judge_rights(self) -> None:
        """Judge the first process by what the kernel says of it.

        Raises:
            Wrong: It has another user, a capability, or may get privileges.
        """
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        wanted = {
            "Uid": [self._image.user] * 4,
            "Gid": [self._image.group] * 4,
            "Groups": [],
            "CapEff": ["0" * 16],
            "CapBnd": ["0" * 16],
            "NoNewPrivs": ["1"],
        }
        if wrong := {name: status[name] for name, value in wanted.items() if status[name] != value}:
            raise Wrong(f"the first process has {wrong}")
        if status["NSpid"][-1] != "1":
            raise Wrong(f"the command is not the first process: {status['NSpid']}")

    def hasher(self) -> str:
        """Return which library hashes passwords there, as the server's log says.

        Raises:
            Wrong: It says nothing of it, or that one of the libraries cannot be used.
        """
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        said = {one["event"]: one for one in map(json.loads, filter(lambda line: line.startswith("{"), lines))}
        if "argon2_fallback" in said or "argon2_chosen" not in said:
            raise Wrong(f"Argon2: {said.get('argon2_fallback', 'nothing is said of it')}")
        return str(said["argon2_chosen"]["argon2"])

    def stop(self) -> int:
        """Send the stop signal; return the command's status.

        Raises:
            Wrong: It runs still after ``STOP_S``.
        """
        os.kill(self.pid, self._image.stop_signal)
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{self._image.stop_signal.name} did not end it within {STOP_S} s:\n{self.said()}") from None


def succeed(what: str, done: subprocess.CompletedProcess[str]) -> None:
    """Print what succeeded.

    Raises:
        Wrong: It did not.
    """
    if done.returncode:
        raise Wrong(f"{what}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    print(what)  # noqa: T201 - a program's output


def main(archive: Path, tree: Path, scratch: Path) -> None:
    """Try the image from its files to its end.

    Raises:
        Wrong: What it did not do.
    """
    image = Image.of(archive)
    print(judge_files(tree, image.folder), "files of ours, each as the Dockerfile has it")  # noqa: T201
    # OCI's configuration has no place for it: the command is the Dockerfile's.
    healthy = json.loads(stages(RECIPE.read_text(encoding="utf-8"))[-1].last("HEALTHCHECK").removeprefix("CMD "))
    python = image.command[0]
    with Container(image, tree, scratch) as container:
        container.wait_until(healthy)
        print("health check: healthy")  # noqa: T201
        container.judge_rights()
        print(f"first process: user {image.user}:{image.group}, no capability")  # noqa: T201
        succeed("nothing is writable but the volume", container.run(["sh", "-c", READ_ONLY, "sh", image.volume]))
        person = json.dumps({"email": "mia@example.com", "password": secrets.token_urlsafe(16)})
        succeed("sign-up, first token, /me", container.run([python, "-", ISSUER, person], FIRST_TOKEN))
        print(f"Argon2: {container.hasher()}")  # noqa: T201
        status = container.stop()
        if status:
            raise Wrong(f"{image.stop_signal.name} ended it with status {status}:\n{container.said()}")
        print(f"{image.stop_signal.name}: ended within {STOP_S} s, status 0")  # noqa: T201


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("image: interrupted"))
    try:
        main(*(Path(argument).resolve() for argument in sys.argv[1:4]))
    except Wrong as wrong:
        sys.exit(f"image: {wrong}")
