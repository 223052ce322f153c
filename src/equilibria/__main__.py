"""`python -m equilibria`."""

import sys

from equilibria.cli import main

if __name__ == "__main__":
    sys.exit(main())
