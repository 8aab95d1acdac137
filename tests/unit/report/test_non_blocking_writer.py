"""Who does not read, reads late or has gone holds up nobody who tells him something."""

import os
import select
import threading

from testbed.report.non_blocking_writer import NonBlockingWriter


def test_unread_output_is_queued_without_blocking_the_writer(full_pipe):
    reader, stream = full_pipe
    writer = NonBlockingWriter(stream)
    for number in range(3):
        writer.write(f"line {number}\n")
    os.read(reader.fileno(), 1 << 20)
    writer.flush()
    assert reader.readline() + reader.readline() == "line 0\nline 1\n"


def test_only_as_much_as_the_pipe_accepts_is_written_at_once(full_pipe):
    reader, stream = full_pipe
    os.read(reader.fileno(), select.PIPE_BUF)  # room for so much, and no more
    said = "–" * 10 * select.PIPE_BUF + "\n"
    writer = NonBlockingWriter(stream)
    writer.write(said)
    late = threading.Thread(target=writer.flush, args=[None])
    late.start()
    assert reader.readline().lstrip("-") == said
    late.join()


def test_a_closed_reader_raises_no_error_and_its_output_is_dropped(left_pipe):
    writer = NonBlockingWriter(left_pipe)
    writer.write("is there somebody?\n")
    writer.flush(None)
    assert not writer._pending


def test_when_the_queue_overflows_the_last_output_is_kept(full_pipe):
    reader, stream = full_pipe
    writer = NonBlockingWriter(stream, most=2)
    for number in range(5):
        writer.write(f"line {number}\n")
    os.read(reader.fileno(), 1 << 20)
    writer.flush()
    assert [reader.readline(), reader.readline()] == ["line 3\n", "line 4\n"]
