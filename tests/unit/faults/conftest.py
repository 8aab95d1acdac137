"""A small lab to break something in."""

import pytest

from tests.unit.faults.small_lab import SmallLab


@pytest.fixture(scope="session")
def opened(tmp_path_factory, ssh_host):
    with ssh_host.at_home():
        lab = SmallLab(tmp_path_factory.mktemp("lab"), ssh_host.port)
    yield lab
    lab.close()


@pytest.fixture
def lab(opened):
    """The small lab with the job's ring lit and the victim's rank running."""
    opened.begin()
    return opened
