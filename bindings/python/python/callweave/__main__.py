"""``python -m callweave`` is the program ``callweave``."""

import sys

from callweave._program import main

sys.exit(main())
