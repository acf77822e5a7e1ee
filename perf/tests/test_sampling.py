"""Sampling the machine: differences of counters, and a real server's switches."""

import os
import subprocess
import sys
import time

from perf.rig.sampling import Reading, Sampler, difference, read


def reading(at: float, ticks: list[int], *, switches: int = 0, server: tuple[int, int] = (0, 0)) -> Reading:
    """Build what was read at a moment on a machine of one core."""
    return Reading(at, [ticks], 3, 0.5, switches, server)


def test_a_sample_is_the_difference_of_two_readings() -> None:
    """CPU in percent of the interval with interrupts as system, switches per second, time from the origin."""
    first = reading(100.0, [10, 0, 10, 100, 5, 0, 0, 0], switches=1_000, server=(50, 5))
    last = reading(102.0, [50, 10, 20, 120, 10, 5, 5, 5], switches=3_000, server=(150, 25))
    sample = difference(first, last, 90.0)
    core = sample.cores[0]
    assert (core.user, core.system, core.iowait, core.steal, core.idle) == (50.0, 20.0, 5.0, 5.0, 20.0)
    assert sample.busy == 70.0
    assert (sample.at_s, sample.switches) == (12.0, 1_000.0)
    assert (sample.server_voluntary, sample.server_involuntary) == (50.0, 10.0)
    assert (sample.run_queue, sample.load_1) == (3, 0.5)


def test_a_counter_never_runs_backwards() -> None:
    """A thread that ended takes its count with it: the interval then shows none, not fewer than none."""
    ticks = [10, 0, 10, 100, 5, 0, 0, 0]
    sample = difference(reading(1.0, ticks, server=(50, 50)), reading(2.0, ticks, server=(40, 60)), 0.0)
    assert (sample.server_voluntary, sample.server_involuntary) == (0.0, 10.0)


def test_every_thread_of_a_process_counts() -> None:
    """A process' switches are those of all its threads; one that has ended counts nothing."""
    program = (
        "import threading, time\n"
        "for _ in range(3): threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(400)]).start()\n"
        "print('ready', flush=True); time.sleep(30)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        before, at = read([process.pid]), time.monotonic()
        while read([process.pid]).server[0] < before.server[0] + 100 and time.monotonic() < at + 10:
            time.sleep(0.02)
        after = read([process.pid])
        process.kill()
    assert after.server[0] >= before.server[0] + 100  # the main thread sleeps: these are the others'
    assert read([process.pid]).server == (0, 0)
    assert len(after.cores) == os.cpu_count()
    assert after.switches > before.switches


def test_a_sampler_samples_until_it_is_left() -> None:
    """Samples come in order while it is entered, timed from its origin, and none after."""
    began = time.monotonic()
    with Sampler(os.getpid(), origin=began, interval_s=0.02) as sampler:
        while len(sampler.samples) < 3 and time.monotonic() < began + 10:
            time.sleep(0.01)
    seen = len(sampler.samples)
    time.sleep(0.06)
    assert seen == len(sampler.samples) >= 3
    times = [sample.at_s for sample in sampler.samples]
    assert times == sorted(times)
    assert times[0] > 0


def test_no_server_no_switches_of_one() -> None:
    """Without a process only the machine is sampled."""
    sample = difference(read([]), read([]), 0.0)
    assert (sample.server_voluntary, sample.server_involuntary) == (0.0, 0.0)
