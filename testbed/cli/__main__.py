"""Let `python -m testbed.cli` be the command `testbed`."""

from testbed.cli import main

main()
