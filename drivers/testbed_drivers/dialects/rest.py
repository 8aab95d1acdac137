"""Instruments with a REST interface, host side: login, reads, orders, refusals.

Each driver defines the paths and bodies. An order is sent once and never repeated.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypeVar

from testbed.bench.contracts import Identity, Transport
from testbed.clock import Deadline
from testbed.concealed import excerpt
from testbed.errors import Garbled, Rejected, UsageError
from testbed.resource import Tcp, place
from testbed_drivers.dialects.http_line import HttpLine, Json, Reply
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.dialects.session import LONGEST_ANSWER, Dialect
from testbed_drivers.transports import tls
from testbed_drivers.transports.base import Endpoint
from testbed_drivers.transports.tcp import TcpTransport, open_socket

Answer = TypeVar("Answer")
Get = Callable[[str], Json]
"""Returns what is at a path; None when the service says that there is nothing."""

_HINTS = {
    401: "give 'user' and 'password' in the lab file",
    403: "that user may not do this; give another one in the lab file",
}


@dataclass(frozen=True, slots=True)
class WebService:
    """The properties of one family's web service; `error_text` returns the message of a refusal."""

    identity: Callable[[Get], Identity]
    error_text: Callable[[Json], str]
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    denied: re.Pattern[str] = re.compile("(?!)")
    """Method and path of orders that end circuits of others; they are never sent."""
    etag_paths: Collection[str] = ()
    """Paths whose ETag can be trusted: read in full only when they have changed."""
    not_found_hint: str = ""
    """What to do when the service does not know a path."""


class Rest(Dialect[HttpLine]):
    """One instrument's web service over a session; `options` has its user and media type."""

    def __init__(self, endpoint: Endpoint, options: HttpOptions, service: WebService) -> None:
        instrument, where = endpoint.instrument, place(endpoint.resource)
        if not isinstance(where, Tcp):
            raise UsageError(
                f"{instrument}: {endpoint.resource!r} is not a URL",
                hint="write 'https://192.0.2.11'",
            )
        self._service = service
        self._known: dict[str, tuple[str, Json]] = {}
        authorization = options.authorization()
        headers = {**service.headers} | ({"Authorization": authorization} if authorization else {})
        connector = _connector(endpoint, where, options)

        def connect(deadline: Deadline) -> Transport:
            return connector(deadline.within(options.connect_timeout))

        def line(deadline: Deadline) -> HttpLine:
            media, tracer = service.media, endpoint.tracer
            return HttpLine(instrument, where, connect, headers, media, tracer, deadline)

        super().__init__(endpoint, line)

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._serial.check(self.read(self._service.identity, deadline))

    def read(self, ask: Callable[[Get], Answer], deadline: Deadline) -> Answer:
        """Return the result of `ask`, which may send GET requests and raises ValueError if invalid.

        It is called once more, on a new connection, when the connection failed.
        """
        return self._session.query(lambda line: self._asked(line, ask, deadline), deadline)

    def order(
        self,
        what: str,
        method: str,
        path: str,
        body: Json,
        deadline: Deadline,
        *,
        parse: Callable[[Json], Answer],
        accepted: Collection[int] = (),
    ) -> Answer:
        """Send one changing request and return the parsed answer.

        Raise Rejected with the message of the service for a status that is neither a success nor in
        `accepted`.
        """
        if self._service.denied.fullmatch(f"{method} {path}"):
            raise UsageError(
                f"{self._instrument}: {method} {path} is never sent, as it would remove circuits "
                "of other clients"
            )
        with self._session.exchange(deadline) as line:
            self._known.clear()
            reply = line.request(method, path, body, deadline)
            if reply.status not in accepted:
                self._raise_for_status(what, reply)
            return self._understood(lambda: parse(reply.content))

    def _greet(self, line: HttpLine, deadline: Deadline) -> None:
        self._known.clear()
        self._serial.check(self._asked(line, self._service.identity, deadline))

    def _asked(self, line: HttpLine, ask: Callable[[Get], Answer], deadline: Deadline) -> Answer:
        asked = count()

        def get(path: str) -> Json:
            if next(asked):  # what is left of the answer before would be taken for this one
                self._session.require_quiet(line)
            return self._get(line, path, deadline)

        return self._understood(lambda: ask(get))

    def _get(self, line: HttpLine, path: str, deadline: Deadline) -> Json:
        tag, known = self._known.get(path, ("", None))
        headers = {"If-None-Match": tag} if tag else {}
        reply = line.request("GET", path, None, deadline, headers, self._answer_timeout)
        if tag and reply.status == 304:
            return known
        self._raise_for_status(f"reading {path}", reply)
        tag = reply.headers.get("ETag") or ""
        if tag and path in self._service.etag_paths:
            self._known[path] = (tag, reply.content)
        return reply.content

    def _raise_for_status(self, what: str, reply: Reply) -> None:
        if 200 <= reply.status < 300:
            return
        content = reply.content
        said = content if isinstance(content, str) else self._words(content)
        words = excerpt(said, LONGEST_ANSWER) or "without words"
        hint = {404: self._service.not_found_hint, **_HINTS}.get(reply.status, "")
        raise Rejected(
            self._instrument, f"refused {what}: {reply.status} {words}", reply=words, hint=hint
        )

    def _words(self, content: Json) -> str:
        try:
            return str(self._service.error_text(content))
        except (AttributeError, LookupError, TypeError):
            return excerpt(str(content))

    def _understood(self, parse: Callable[[], Answer]) -> Answer:
        try:
            return parse()
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            words = f"no {error}" if isinstance(error, LookupError) else str(error)
            words = excerpt(words, LONGEST_ANSWER)
            raise Garbled(
                self._instrument, f"sent an answer that cannot be used: {words}", reply=words
            ) from error


def _connector(
    endpoint: Endpoint, where: Tcp, options: HttpOptions
) -> Callable[[Deadline], Transport]:
    """Return the way to connect to a service, inside TLS where its URL says so."""
    instrument = endpoint.instrument
    if endpoint.dial is not None:
        return endpoint.opener()
    if not where.tls:
        return lambda deadline: TcpTransport(instrument, open_socket(instrument, where, deadline))
    return partial(tls.dial, instrument, where, _tls(instrument, options))


def _tls(instrument: str, options: HttpOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if options.ca_file:
            context.load_verify_locations(options.ca_file)
    except OSError as error:
        raise UsageError(
            f"{instrument}: 'ca_file' {options.ca_file} cannot be used: {error}"
        ) from error
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
