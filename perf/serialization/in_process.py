"""The work of one answer alone, without request and server: ``python -m perf.serialization.in_process``.

Prints JSON, milliseconds by the name of the way. It runs in the environment of the server it is compared with, in a
process of its own, so that nothing else is in its memory.
"""

import argparse
import gc
import os
import statistics
import sys
from collections.abc import Callable
from timeit import Timer

import django
import msgspec

REPEATS = 7  # the median of these is what is printed
BATCH_S = 0.15  # one repeat runs about this long


def ways() -> dict[str, Callable[[], object]]:
    """Return every way from objects to bytes, and two halves of such ways. Needs ``django.setup()``."""
    # Serializers read Django's settings when they are imported.
    from rest_framework.renderers import JSONRenderer  # noqa: PLC0415 - needs django.setup()

    from ironauth.infrastructure.api.renderers import MsgspecRenderer  # noqa: PLC0415 - needs django.setup()
    from perf.serialization.outputs import converted  # noqa: PLC0415 - needs django.setup()
    from perf.serialization.payload import exercises  # noqa: PLC0415 - needs django.setup()
    from perf.serialization.serializers import serialized  # noqa: PLC0415 - needs django.setup()

    objects = exercises()
    structs = converted(objects)
    plain, fast = JSONRenderer(), MsgspecRenderer()

    data = serialized(objects)
    return {
        "drf": lambda: plain.render(serialized(objects)),
        "drf-msgspec": lambda: fast.render(serialized(objects)),
        "msgspec-converted": lambda: fast.render(converted(objects)),
        "msgspec": lambda: fast.render(structs),
        "serializer": lambda: serialized(objects),
        "JSONRenderer": lambda: plain.render(data),
        "msgspec encoding": lambda: fast.render(data),
    }


def median_ms(work: Callable[[], object], *, batch_s: float = BATCH_S) -> float:
    """Return the median time of one call, in milliseconds, with the garbage collector on as in a server."""
    timer = Timer(work, "gc.enable()", globals={"gc": gc})
    once = timer.timeit(2) / 2
    number = max(1, round(batch_s / once))
    return 1000 * statistics.median(timer.repeat(REPEATS, number)) / number


def main() -> int:
    """Measure every way on one core."""
    parser = argparse.ArgumentParser(prog="python -m perf.serialization.in_process", description=main.__doc__)
    parser.add_argument("--core", type=int, help="the core to run on")
    given = parser.parse_args()
    if given.core is not None:
        os.sched_setaffinity(0, {given.core})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    django.setup()
    measured = {name: median_ms(work) for name, work in ways().items()}
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
