"""python -m gemrl."""

import sys

from gemrl.cli import main

if __name__ == "__main__":
    sys.exit(main())
