"""Instruments with a REST interface, device side: authorization, and typical faults."""

from __future__ import annotations

import hmac
from abc import abstractmethod
from collections.abc import Mapping

from testbed.bench.sites import Site
from testbed_drivers.dialects.client_connection import ClientConnection
from testbed_drivers.dialects.far_end import ORDER_FAULTS, FarEnd
from testbed_drivers.dialects.http_far_end import Answer, HttpSession, Request
from testbed_drivers.dialects.options import HttpOptions

FAULTS = {
    **ORDER_FAULTS,
    "login-rejected": "refuses every login",
    "not-json": "carries out the command and answers with a page for people",
}
"""What every web service can be told to do wrong beyond the faults of any connection."""

_PAGE = b"<html><body><h1>Management console</h1>Please log in.</body></html>"


class RestFarEnd(FarEnd):
    """An instrument with a web service; all paths but `public` require the user of the options."""

    media = "application/json"
    public: frozenset[str] = frozenset()
    """Paths that need no login."""

    def __init__(self, faults: Mapping[str, str], options: HttpOptions, site: Site) -> None:
        super().__init__({**FAULTS, **faults}, site)
        self._authorization = options.authorization()

    def _conversation(self, connection: ClientConnection) -> HttpSession:
        return HttpSession(self._answer, connection, self.media)

    @abstractmethod
    def _route(self, request: Request) -> Answer:
        """Carry out a request that is authorized."""

    @abstractmethod
    def _error(self, status: int, words: str) -> Answer:
        """Return a refusal in the device's own form."""

    def _ports(self, request: Request) -> tuple[int | str, ...]:
        """Return the ports or outlets that a request names, where its path names some."""
        return ()

    def _answer(self, request: Request) -> Answer:
        command = str(request)
        with self.lock:
            answer = self._refusal(request, command) or self._route(request)
        if answer.status < 300 and self.faults.strikes("not-json", command):
            return Answer(200, _PAGE)
        return answer

    def _refusal(self, request: Request, command: str) -> Answer | None:
        """Return why a request is not carried out; None when it is."""
        if request.path not in self.public and not self._knows(request):
            return self._error(401, "a user name and a password are needed")
        if self.faults.strikes("login-rejected", command):
            return self._error(401, "wrong user name or password")
        if self.is_busy:
            return self._error(503, "busy, try again later")
        is_order = request.method not in ("GET", "HEAD")
        if is_order and self.faults.strikes("error", command, *self._ports(request)):
            return self._error(503, "the controller does not respond")
        return None

    def _knows(self, request: Request) -> bool:
        if not self._authorization:
            return True
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), self._authorization.encode())
