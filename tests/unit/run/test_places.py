"""Where the ranks of a job run: slots of hosts, and who takes whose place."""

from testbed.run.inbox import Report
from testbed.run.places import Membership, Place, Slots

ON_TWO = (Place("h0", 0), Place("h0", 1), Place("h1", 0), Place("h1", 1))


def test_each_host_hands_out_its_slots_in_order_whichever_job_asks():
    slots = Slots()
    assert slots.take(("h0", "h0", "h1")) == (("h0", 0), ("h0", 1), ("h1", 0))
    assert slots.take(("h1", "h0")) == (("h1", 1), ("h0", 2))


def test_ranks_on_one_host_are_told_apart_by_their_slots():
    members = Membership(ON_TWO)
    assert members.hosts == ("h0", "h0", "h1", "h1")
    assert [members.rank_of(place) for place in ON_TWO] == [0, 1, 2, 3]
    assert members.rank_of(Place("h0", 2)) is None
    assert members.ranks_on("h1") == (2, 3)


def test_the_fabric_is_between_ranks_whose_next_one_is_on_another_host():
    assert Membership(ON_TWO).at_borders() == (1, 3)
    assert Membership(ON_TWO[:2]).at_borders() == (0, 1)
    assert Membership(tuple(map(Place, ("h0", "h1", "h2")))).at_borders() == (0, 1, 2)


def test_a_spare_on_a_host_in_use_has_a_slot_of_its_own():
    members = Membership(ON_TWO, (Place("h1", 2), Place("h2", 0)))
    assert members.replace(0, "h1") == Place("h1", 2)
    assert members.places == (Place("h1", 2), *ON_TWO[1:])
    assert members.spares == (Place("h2", 0),)
    members.move_to(("h1", "h0", "h1", "h1"))
    assert members.places == (Place("h1", 2), *ON_TWO[1:]), "nobody has moved"


def test_fewer_ranks_move_up_to_the_places_that_are_left():
    members = Membership(tuple(map(Place, ("h0", "h1", "h2", "h3"))))
    members.move_to(("h0", "h1", "h3"))
    assert members.places == (Place("h0"), Place("h1"), Place("h3"))
    assert (members.rank_of(Place("h3")), members.rank_of(Place("h2"))) == (2, None)


def test_a_place_whose_rank_was_replaced_becomes_a_spare_after_the_trial():
    members = Membership((Place("h0"), Place("h1")), (Place("h2"), Place("h3")))
    members.replace(1, "h3")
    assert members.spares == (Place("h2"),)
    members.restore_spares()
    assert members.spares == (Place("h1"), Place("h2"))


def test_reports_of_a_process_name_its_rank_and_those_of_a_host_its_only_one(job):
    job.members = Membership((Place("h0", 0), Place("h0", 1), Place("h1", 0)))
    ended = {"event": "exit", "slot": 1, "code": 1}
    assert job.rank_in(Report("h0", ended, 0.0)) == 1
    dark = {"event": "carrier", "port": "p0", "up": False}
    assert job.rank_in(Report("h0", dark, 0.0)) is None
    assert job.rank_in(Report("h1", dark, 0.0)) == 2
