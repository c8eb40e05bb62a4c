"""``python -m quitmt`` is the command line."""

import sys

from quitmt.cli.main import main

sys.exit(main())
