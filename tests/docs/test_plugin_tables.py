"""The page of plug-ins is what the registry says."""

from tests.docs.plugin_tables import PAGE, page


def test_the_page_of_plugins_equals_the_registry():
    assert PAGE.read_text(encoding="utf-8") == page(), "run tests/docs/plugin_tables.py"
