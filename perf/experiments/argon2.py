"""What the build of Argon2, the size of memory pages and keeping the memory are worth, beside the stock wheel."""

from importlib.metadata import version

from ironauth.config.checks import default_hash_threads
from perf import plots
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.rig.argon2_builds import NATIVE_FLAGS, PACKAGE, install
from perf.rig.hash_rate import HashRate, in_a_process
from perf.rig.site_setup import ARGON2
from perf.summary import ratios, spread

HYPOTHESIS = (
    "Argon2 moves 64 MiB through the processor three times for each hash: pages of 2 MiB spare it most of the page "
    "faults and misses of the address cache, a third more hashes; AVX2 or AVX-512 double the arithmetic of each "
    "block. Memory that is kept from one hash to the next spares the kernel clearing it, a tenth more. All together "
    "give at least 1.8 times the hashes of the stock wheel without huge pages."
)
GAIN = 1.8  # times the stock wheel, where the processor has AVX2 or AVX-512
SECONDS, QUICK_SECONDS, RAMP_S = 10.0, 3.0, 0.5
HUGE = "glibc.malloc.hugetlb=1"
WHEEL, PAGES, NATIVE, BOTH = "stock wheel", "with huge pages", "compiled for this CPU", "compiled, with huge pages"
KEPT = "compiled, with huge pages, memory kept (as `serve` hashes)"


def measure(lab: Lab) -> Finding:
    """Install both builds into folders of their own, and hash with each, with and without huge pages, in rounds."""
    lab.say("fetching the wheel and compiling the source")
    wheel = install(lab.folder / "wheel", "--only-binary")
    native = install(lab.folder / "native", "--no-binary", NATIVE_FLAGS)
    ways = {WHEEL: (wheel, ""), PAGES: (wheel, HUGE), NATIVE: (native, ""), BOTH: (native, HUGE), KEPT: (native, HUGE)}
    threads = default_hash_threads()
    seconds = QUICK_SECONDS if lab.quick else SECONDS
    rounds: dict[str, list[HashRate]] = {name: [] for name in ways}
    for number in range(1, lab.rounds + 1):
        for name, (bindings, tunables) in ways.items():
            rounds[name].append(
                in_a_process(
                    threads=threads,
                    seconds=seconds,
                    ramp_s=RAMP_S,
                    cost=ARGON2,
                    tunables=tunables,
                    bindings=bindings,
                    library=name != KEPT,
                )
            )
        lab.say(f"round {number}: " + ", ".join(f"{name} {each[-1].rate:.1f}/s" for name, each in rounds.items()))
    path = lab.plot()
    rates = {name: spread([one.rate for one in each]).median for name, each in rounds.items()}
    plots.bars(path, f"Argon2id in {threads} threads", rates, unit="hashes/s, median")
    return finding(rounds, threads, path.name)


def finding(rounds: dict[str, list[HashRate]], threads: int, drawn: str) -> Finding:
    """Say what was found."""
    rows, gains = [], {}
    stock = [one.rate for one in rounds[WHEEL]]
    for name, each in rounds.items():
        rate, cpu = spread([one.rate for one in each]), spread([one.cpu_ms for one in each])
        gain = ratios([one.rate for one in each], stock)
        gains[name] = gain.median if gain is not None else 0.0
        figures = (f"{rate.median:.1f} ({rate.low:.1f}-{rate.high:.1f})", f"{cpu.median:.0f}", f"{gains[name]:.2f}")
        rows.append((name, *figures))
    alone, kept = (
        0.0 if gain is None else gain.median
        for gain in (
            ratios([one.rate for one in rounds[way]], [one.rate for one in rounds[before]])
            for way, before in ((BOTH, PAGES), (KEPT, BOTH))
        )
    )
    cost = f"t={ARGON2['time-cost']}, m={ARGON2['memory-kib'] // 1024} MiB, p={ARGON2['parallelism']}"
    title = f"Argon2id, {cost}, in {threads} threads without anything beside"
    return Finding(
        [Table(title, ("build", "hashes/s: median (low-high)", "CPU ms a hash", "times the stock wheel"), rows)],
        checks=[Check(f"{KEPT}, against the stock wheel", GAIN, gains[KEPT], unit="x")],
        plots=[drawn],
        notes=[
            f"{PACKAGE} {version(PACKAGE)}, -O3 -march=native; huge pages by GLIBC_TUNABLES={HUGE}.",
            (
                f"`serve` asks for huge pages by itself, `make argon2-native` compiles: {alone:.2f} times the hashes "
                f"of the wheel with huge pages. Keeping the memory: {kept:.2f} times the hashes."
            ),
        ],
        data=dict(rounds),
    )
