"""What may be repeated of what others say: short, without secrets, and at once."""

from testbed.concealed import conceal, excerpt, excerpt_of, masked


def test_a_secret_is_masked_in_any_quoting():
    conceal('sesame"\\Grüße')
    for text in ('sesame"\\Grüße', repr('sesame"\\Grüße'), '"sesame\\"\\\\Gr\\u00fc\\u00dfe"'):
        assert "***" in masked(text) and "sesame" not in masked(text)


def test_a_secret_that_begins_with_another_is_masked_as_a_whole():
    conceal("lantern-1")
    conceal("lantern-1-of-the-lab")
    conceal("lantern-1-of")
    assert masked("at lantern-1-of-the-lab, lantern-1") == "at ***, ***"


def test_no_part_of_a_secret_remains_in_shortened_text():
    conceal("correct-horse-battery")
    for before in range(50, 90):
        text = "x" * before + "correct-horse-battery" + "y" * 500
        assert not {"correct", "battery"} & set(excerpt(text).replace("x", " ").split())
        assert "horse" not in excerpt_of(text.encode())


def test_an_excerpt_keeps_the_beginning_and_the_end_of_the_text():
    assert excerpt("a" * 80) == "a" * 80
    assert excerpt("a" * 500 + "end").endswith("end")
    assert len(excerpt("a" * 500)) < 90
    assert excerpt_of(b"\xff" * 2_000_000).startswith("\\xff\\xff")
