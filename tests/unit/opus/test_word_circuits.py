"""The circuits that the words of a rail stand for."""

import pytest

from testbed.fabric.fibre_plant import own_ports
from testbed.opus.word_circuits import WordCircuits
from testbed.schema import load_lab

from .test_circuit_rails import CONFIGS


def words(lab, hosts, stages, rail=0):
    found = load_lab(CONFIGS / f"{lab}.yaml")
    names = list(found.hosts)[:hosts]
    ports = own_ports(names, found.ports(), 2)[rail::2]
    return WordCircuits(ports, stages, found.wiring())


def shown(made, word):
    return sorted(map(str, made.circuits(word)))


@pytest.mark.parametrize(
    ("word", "circuits"),
    [
        (0, ["h0.p1–h1.p1", "h2.p1–h3.p1"]),
        (3, ["h0.p1–h2.p1", "h1.p1–h3.p1"]),
        (2, ["h0.p1–h1.p1"]),
        (1, ["h2.p1–h3.p1"]),
    ],
)
def test_the_words_of_the_recorded_job_join_its_data_and_pipeline_pairs(word, circuits):
    assert shown(words("rails", 4, 2, rail=1), word) == circuits


def test_with_two_ports_a_pipeline_of_four_is_a_line():
    made = words("rails-wide", 4, 4)
    assert shown(made, 0) == []
    assert shown(made, 3) == ["h0.p1–h1.p0"]
    assert shown(made, 15) == ["h0.p1–h1.p0", "h1.p1–h2.p0", "h2.p1–h3.p0"]
    assert shown(made, 13) == ["h2.p1–h3.p0"]


@pytest.mark.parametrize(
    ("lab", "hosts", "stages", "why"),
    [
        ("rails", 5, 2, "5 hosts do not make 2 pipeline stages of one size"),
        ("rails", 4, 4, "h1.p0 is in more than one circuit"),
        ("rails", 3, 1, "a ring of 3 ranks"),
    ],
)
def test_hosts_whose_words_do_not_say_which_circuits_are_meant_are_refused(lab, hosts, stages, why):
    with pytest.raises(ValueError, match=why):
        words(lab, hosts, stages)


@pytest.mark.parametrize("word", [4, -1, 1 << 40])
def test_a_word_with_a_bit_of_no_stage_has_no_circuits(word):
    with pytest.raises(ValueError, match="more than 2 pipeline stages"):
        words("rails", 4, 2).circuits(word)
