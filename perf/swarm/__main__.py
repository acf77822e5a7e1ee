"""Send the swarm: ``python -m perf.swarm --shape spike --processes 2``. ``perf.swarm.run`` says what it does."""

import sys

from perf.swarm.run import main

if __name__ == "__main__":
    sys.exit(main())
