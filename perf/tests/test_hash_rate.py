"""The raw hash rate."""

from perf.rig.hash_rate import in_a_process


def test_a_process_of_its_own_hashes_with_the_cost_it_is_given() -> None:
    """What comes back was measured with as many threads, and each hash took time."""
    cost = {"time_cost": 1, "memory_kib": 1_024, "parallelism": 1}
    rate = in_a_process(threads=2, seconds=0.2, ramp_s=0.0, cost=cost, tunables="")
    assert rate.threads == 2
    assert rate.rate > 0
    assert 0 < rate.mean_ms <= rate.slowest_ms
