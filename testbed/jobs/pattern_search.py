"""Search lines for patterns, in a process of its own that the kernel ends when one takes too long.

Python's regular expressions can take exponential time, and nothing inside the interpreter stops
them. The patterns come from a file that a person wrote, the lines from a program, so `patterns.py`
runs this file as a program: questions on standard input, answers on standard output, as JSON.
Standard library only.
"""

from __future__ import annotations

import json
import re
import resource
import sys

MOST_MATCHES = 10_000
MEMORY = 1 << 30


def main(seconds: int) -> None:
    """Answer one question: for each pattern first its name, then what its group held."""
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
