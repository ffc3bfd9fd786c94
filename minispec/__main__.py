"""`python -m minispec`."""

import sys

from minispec.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
