"""What papers claim, by the names of the experiments that repeat it."""

from testbed.plugins import registered
from testbed.report.claims import Claim, claim_of
from tests.unit.schema.conftest import installed

OUTSIDE = """
from testbed.report.claims import Claim
MORPH = Claim(1.2, "a paper claims 1.2 s")
"""


def test_the_claim_of_lumion_is_that_of_every_experiment_of_its_family():
    assert claim_of("lumion") is claim_of("lumion-sweep") is claim_of("lumion_cold")
    assert claim_of("lumion").seconds == 1.0
    assert claim_of("allreduce") is claim_of("lumionary") is None


def test_every_registered_claim_says_in_words_what_it_stops_at():
    for claim in registered("claims", Claim).values():
        assert claim.seconds > 0
        assert claim.text.endswith(".")


def test_a_package_registers_the_claim_of_its_own_experiments(tmp_path):
    entry = "[testbed.claims]\nmorph = outside_claim:MORPH\n"
    with installed(tmp_path, "outside_claim", OUTSIDE, entry):
        assert claim_of("morph-warm").seconds == 1.2
    assert claim_of("morph-warm") is None
