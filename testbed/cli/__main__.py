"""Let `python -m testbed.cli` be the command `testbed`."""

from testbed.cli import main

if __name__ == "__main__":  # processes that compute models import this module, too
    main()
