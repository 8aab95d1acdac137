"""Search lines for patterns, in a separate process that the kernel kills after a time limit.

Python's regular expressions can take exponential time, and nothing inside the interpreter stops
them. Patterns come from a user's file and lines from a program, so `patterns.py` runs this file as
a program, with a request on standard input and the answer on standard output, as JSON. Standard
library only.
"""

from __future__ import annotations

import json
import re
import resource
import sys

MOST_MATCHES = 10_000
MEMORY = 1 << 30


def main(seconds: int) -> None:
    """Read one request and print the matches: each pattern's name, and what its group matched."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    question = json.load(sys.stdin)
    for name, pattern in question["patterns"].items():
        print(json.dumps({"begins": name}), flush=True)
        search = re.compile(pattern).search
        matches = (search(line) for line in question["lines"])
        found = [match[1] for match in matches if match is not None]
        print(json.dumps({"ends": name, "found": found[-MOST_MATCHES:]}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
