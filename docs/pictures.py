"""Put pictures of `make screenshots` onto the site: ``python docs/pictures.py var/screenshots``."""

import shutil
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("images")
#: Each picture of the site, and the one that the browser tests take.
PICTURES: Final = {"sign-in.png": "sign-in-1280-light.png"}


def main(taken: Path) -> None:
    """Copy every picture that was taken; one that was not, in a run of a part, stays.

    Args:
        taken: The folder of the browser tests' pictures.
    """
    for name, source in PICTURES.items():
        if (taken / source).is_file():
            shutil.copy(taken / source, FOLDER / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
