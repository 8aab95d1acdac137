"""Who does not read, reads late or has gone holds up nobody who tells him something."""

import os
import select
import threading

from testbed.report.non_blocking_writer import NonBlockingWriter


def test_what_nobody_reads_waits_and_its_teller_does_not(full_pipe):
    reader, stream = full_pipe
    writer = NonBlockingWriter(stream)
    for number in range(3):
        writer.write(f"line {number}\n")
    os.read(reader.fileno(), 1 << 20)
    writer.flush()
    assert reader.readline() + reader.readline() == "line 0\nline 1\n"


def test_however_long_it_is_only_what_is_taken_at_once_is_written(full_pipe):
    reader, stream = full_pipe
    os.read(reader.fileno(), select.PIPE_BUF)  # room for so much, and no more
    said = "–" * 10 * select.PIPE_BUF + "\n"
    writer = NonBlockingWriter(stream)
    writer.write(said)
    late = threading.Thread(target=writer.flush, args=[None])
    late.start()
    assert reader.readline().lstrip("-") == said
    late.join()


def test_a_reader_that_has_gone_raises_nothing_and_nothing_is_kept_for_it(left_pipe):
    writer = NonBlockingWriter(left_pipe)
    writer.write("is there somebody?\n")
    writer.flush(None)
    assert not writer._pending


def test_of_more_than_he_can_be_told_the_last_is_kept(full_pipe):
    reader, stream = full_pipe
    writer = NonBlockingWriter(stream, most=2)
    for number in range(5):
        writer.write(f"line {number}\n")
    os.read(reader.fileno(), 1 << 20)
    writer.flush()
    assert [reader.readline(), reader.readline()] == ["line 3\n", "line 4\n"]
