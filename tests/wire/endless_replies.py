"""What boxes say that never stop talking, by language: functions of what was asked, in pieces."""

import re
import struct
import time

PIECE = 16384
MEGABYTES_10 = 10_000_000
LF, CRLF = b"\n", b"\r\n"


def for_ever(text):
    """Say the same over and over."""
    piece = text * max(1, PIECE // len(text))

    def pieces(asked):
        while True:
            yield piece

    return pieces


def dripping(text):
    """Say a byte every 100 ms."""

    def pieces(asked):
        while True:
            for byte in text:
                yield bytes([byte])
                time.sleep(0.1)

    return pieces


def long_then(text, end):
    """Say 10 MB, then an end, and nothing more."""

    def pieces(asked):
        for _ in range(MEGABYTES_10 // PIECE):
            yield text * (PIECE // len(text))
        yield end

    return pieces


def silent(asked):
    """Say nothing."""
    return iter(())


def after(beginning, reply):
    """Say something first."""

    def pieces(asked):
        yield beginning
        yield from reply(asked)

    return pieces


def tl1(reply):
    """Answer with what names the tag of the last command, over and over."""

    def pieces(asked):
        tag = re.findall(rb":(\d+):[^;]*;|:(\d+);", asked or b":1;")[-1]
        text = reply.replace(b"TAG", tag[0] or tag[1])
        while True:
            yield text * (PIECE // len(text))

    return pieces


def ssh_ignored(asked):
    """Send packets of SSH that are to be ignored (RFC 4253, sections 6 and 11.2)."""
    yield b"SSH-2.0-box\r\n"
    payload = b"\x02" + struct.pack(">I", 100) + bytes(100)
    padding = 8 - (len(payload) + 5) % 8 + 8
    packet = struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)
    while True:
        yield packet * (PIECE // len(packet))


HEAD = b"\r\n\n   OCS 26-11-21 08:30:01\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
COMMON = {
    "bytes for ever": for_ever(b"x"),
    "zeros for ever": for_ever(b"\0"),
    "one byte at a time": dripping(b"y"),
    "telnet for ever": for_ever(b"\xff\xfb\x01\xff\xfd\x03"),
    "silence": silent,
}
REPLIES = {
    "scpi": {
        **COMMON,
        "lines for ever": for_ever(b"what?\n"),
        "answers for ever": for_ever(b'0, "No error"\n'),
        "errors for ever": for_ever(b'-350, "Queue overflow"\n'),
        "prompts for ever": for_ever(b"SCPI> "),
        "a line a byte at a time": dripping(b"(@),(@)   "),
        "10 MB, then an end": long_then(b"(@1,2),(@9,10)", LF),
        "an answer, then bytes for ever": after(b"(@),(@)\n", for_ever(b"x")),
    },
    "tl1": {
        **COMMON,
        "alarms for ever": for_ever(HEAD + b"*C 7 REPT ALM\r\n   45 \xb0C\r\n;"),
        "acknowledgements for ever": tl1(b"IP TAG\r\n<"),
        "blocks for ever": tl1(HEAD + b'M  TAG COMPLD\r\n   "1,9"\r\n>'),
        "answers to others for ever": for_ever(HEAD + b"M  999999 COMPLD\r\n;"),
        "a string for ever": after(HEAD + b'M  1 COMPLD\r\n   "', for_ever(b"a;")),
        "a comment for ever": after(HEAD + b"M  1 DENY\r\n   /* ", for_ever(b"sorry; ")),
        "10 MB, then an end": long_then(b'   "1,9"\r\n', b";"),
    },
    "rest": {
        **COMMON,
        "100 Continue for ever": for_ever(b"HTTP/1.1 100 Continue\r\n\r\n"),
        "headers for ever": after(OK, for_ever(b"X-More: yes\r\n")),
        "a header for ever": after(OK + b"X-More: ", for_ever(b"y")),
        "a body that was announced": after(
            OK + b"Content-Length: 99999999999\r\n\r\n", for_ever(b"[1]")
        ),
        "a body without a length": after(OK + b"Connection: close\r\n\r\n", for_ever(b"[1], ")),
        "chunks for ever": after(
            OK + b"Transfer-Encoding: chunked\r\n\r\n", for_ever(b"5\r\n[1], \r\n")
        ),
        "a chunk for ever": after(
            OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n", for_ever(b"x")
        ),
        "trailers for ever": after(
            OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", for_ever(b"X-More: yes\r\n")
        ),
        "10 MB, then an end": after(
            OK + b"Content-Length: %d\r\n\r\n" % (MEGABYTES_10 // PIECE * PIECE + 1),
            long_then(b" ", b"1"),
        ),
    },
    "rest before TLS": {
        **COMMON,
        "a record a byte at a time": after(b"\x16\x03\x03\x40\x00", dripping(b"\0")),
        "records for ever": for_ever(b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"),
        "warnings for ever": for_ever(b"\x15\x03\x03\x00\x02\x01\x5a"),
        "changes of cipher for ever": for_ever(b"\x14\x03\x03\x00\x01\x01"),
    },
    "ssh before the login": {
        **COMMON,
        "a banner for ever": for_ever(b"Authorised use only\r\n"),
        "a version, then silence": after(b"SSH-2.0-box\r\n", silent),
        "a version, then bytes for ever": after(b"SSH-2.0-box\r\n", for_ever(b"x")),
        "packets to be ignored for ever": ssh_ignored,
    },
    "ssh": {  # zeros are what ends an answer on this wire
        **{way: reply for way, reply in COMMON.items() if way != "zeros for ever"},
        "lines for ever": for_ever(b"config\n"),
        "prompts for ever": dripping(b"admin@sonic:~$ "),
        "10 MB, then an end": long_then(b"1A-1B\n", b"\0000\n"),
    },
}
"""By language, the ways of never ending."""
