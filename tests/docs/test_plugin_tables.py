"""The page of plug-ins is what the registry says."""

from tests.docs.plugin_tables import PAGE, page


def test_the_documented_tables_of_plugins_equal_the_registered_plugins():
    assert PAGE.read_text(encoding="utf-8") == page(), "run tests/docs/plugin_tables.py"
