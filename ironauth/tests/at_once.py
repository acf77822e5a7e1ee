"""Units of work at the same moment: what a rule is worth when two do the same."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from django.db import connections, transaction

BEGIN_S = 30  # seconds in which every thread has to have begun


def at_once[T](*acts: Callable[[], T]) -> list[T | Exception]:
    """Run units of work begun together, each in a thread, on a connection and in a transaction of its own.

    Returns:
        What each has returned or raised, in the order of the acts.
    """
    ready = Barrier(len(acts))

    def run(act: Callable[[], T]) -> T | Exception:
        try:
            ready.wait(timeout=BEGIN_S)
            with transaction.atomic():
                return act()
        except Exception as error:  # noqa: BLE001 - the test judges it
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))
