"""The benchmark's command line: ``python -m perf.bench``."""

import sys

from perf.bench.run import main

if __name__ == "__main__":
    sys.exit(main())
