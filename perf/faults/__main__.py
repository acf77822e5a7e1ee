"""Break things: ``python -m perf.faults --quick redis_killed``. ``perf.faults.run`` says what it does."""

import sys

from perf.faults.run import main

if __name__ == "__main__":
    sys.exit(main())
