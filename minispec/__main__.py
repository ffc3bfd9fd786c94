"""`python -m minispec`."""

import sys

from minispec.cli import main

sys.exit(main())
