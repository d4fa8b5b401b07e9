"""Ten million events, and the memory that they leave behind.

One decoder reads one response after the other; what the process holds is printed as it goes.
"""

from __future__ import annotations

import resource
import sys

import callweave
from accumulate import irregular


def held() -> float:
    """MiB that the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> int:
    _, pieces = irregular(2_000)
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    decoder = callweave.Decoder()
    count, responses, first, shown = 0, 0, 0.0, 0
    while count < wanted:
        for piece in pieces:
            for event in decoder.push(piece):
                count += 1
        responses += len(decoder.take_earlier())
        if responses == 20:
            first = held()
        if count >= shown:
            print(f"{count:>10} events, {responses:>5} responses: {held():.1f} MiB", flush=True)
            shown += wanted // 10
    grown = held() - first
    print(f"grown by {grown:.1f} MiB")
    return 0 if grown < 5 else 1


if __name__ == "__main__":
    sys.exit(main())
