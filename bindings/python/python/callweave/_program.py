"""The console script ``callweave``."""

from __future__ import annotations

import signal
import sys

from callweave import _callweave


def main() -> int:
    """Run the program with the words of the command line; return its exit code."""
    # Python only notes that Ctrl-C was pressed, and acts on it when Python code runs; here none does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _callweave.run_program(["callweave", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
