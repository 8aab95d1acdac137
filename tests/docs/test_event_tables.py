"""The page of events is what the registry says."""

from testbed.events.kinds import KINDS
from tests.docs import event_tables
from tests.docs.event_tables import PAGE, page


def test_the_page_of_events_equals_the_registry():
    assert PAGE.read_text(encoding="utf-8") == page(), "run tests/docs/event_tables.py"


def test_the_page_of_events_names_every_kind():
    shown = [name for kinds in event_tables._SECTIONS.values() for name in kinds]
    assert sorted(shown) == sorted(KINDS)
