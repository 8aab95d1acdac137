"""Secrets by reference: files name an environment variable or a file, never the secret itself.

Revealed secrets are remembered, so that records can mask them in any text: some instruments repeat
a login in their answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.concealed import conceal as conceal
from testbed.concealed import masked as masked
from testbed.errors import UsageError
from testbed.files import read_file

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_LARGEST = 64 << 10
"""Bytes of a file that holds a secret."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret: `{env: NAME}` or `{file: PATH}`.

    It prints as the reference, and no message contains the secret.
    """

    env: str = ""
    file: str = ""

    def __str__(self) -> str:
        return f"{{env: {self.env}}}" if self.env else f"{{file: {self.file}}}"

    def reveal(self) -> str:
        """Return the secret, without the line end of a file; raise UsageError if it is missing."""
        word = self._from_environment() if self.env else self._from_file()
        conceal(word)
        return word

    def _from_file(self) -> str:
        try:
            kept = read_file(Path(self.file).expanduser(), _LARGEST, follow=True)
            return kept.decode().replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
        except (OSError, RuntimeError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise UsageError(
                f"the secret in {self.file} cannot be read: {reason}",
                hint="check its path and its permissions",
            ) from None

    def _from_environment(self) -> str:
        value = os.environ.get(self.env, "")
        if not value:
            raise UsageError(
                f"the secret in the environment variable {self.env} is not set",
                hint=f"set it with: export {self.env}=…",
            )
        return value

    @classmethod
    def read(cls, value: object) -> Secret:
        """Parse a reference to a secret; raise ValueError, without the text, for anything else."""
        if isinstance(value, dict) and len(value) == 1:
            ((key, name),) = value.items()
            if key == "env" and isinstance(name, str) and name.isidentifier():
                return cls(env=name)
            if key == "file" and isinstance(name, str) and name.startswith(("/", "~")):
                return cls(file=name)
        raise ValueError(
            "expected a secret by reference, {env: NAME} or {file: PATH} with a path from / or ~"
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Let pydantic read the reference."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls.read)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {key: {"type": "string"}},
                    "required": [key],
                    "additionalProperties": False,
                }
                for key in ("env", "file")
            ]
        }


def masked_data(value: Any, spared: frozenset[str] = frozenset()) -> Any:
    """Return plain data with secrets in its text masked, except below the keys in `spared`."""
    kind = type(value)
    if kind in _TEXTLESS:  # most of what is recorded: asked first, and without a call below
        return value
    if isinstance(value, str):
        return masked(value)
    if kind is dict or isinstance(value, Mapping):
        return {
            key: held if key in spared or type(held) in _TEXTLESS else masked_data(held, spared)
            for key, held in value.items()
        }
    if isinstance(value, (list, tuple)):
        held = [h if type(h) in _TEXTLESS else masked_data(h, spared) for h in value]
        return held if kind is list else kind(held)
    return value


_TEXTLESS = frozenset([int, float, bool, type(None)])


# --- what programs print --------------------------------------------------------------------

_ALLOWED = ("NCCL_", "RCCL_", "CUDA_", "HIP_", "ROCR_", "UCX_", "OMPI_", "SLURM_", "TESTBED_")
"""Beginnings of the names of variables that a record of a measurement needs, and may keep."""

_ANYWHERE = (
    r"(?i:[\w-]*(?:password|passwd|passphrase|secret|api[_-]?key|(?:access|auth)[_-]?token))"
)
"""Names that say in any case that a value is secret; a plain token may be part of a text."""
_VARIABLE = (
    # A PKEY is the number of an InfiniBand partition; PWD and OLDPWD are directories.
    r"[A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|(?<!_P)KEY|CREDENTIALS?|AUTH)"
    r"|[A-Z0-9_]*(?:_PASS|PGPASS|_PWD|_PAT)"
)
_FLAG = rf"--(?:{_ANYWHERE}|[\w-]*token)"
_NAME = rf"(?<![\w-])(?:{_VARIABLE}|{_ANYWHERE}|{_FLAG})(?![\w-])"
_STRING = r"""(?P<quote>\\?["'])(?:(?!(?P=quote))(?:[^\\\n]|\\.))*"""
_WORD = r"""[^\s"']+"""

_LISTED = re.compile(r'"([A-Za-z_][^"\\=]*)=(?:[^"\\]|\\.|\\$)*("|$)')
_TOLD = [
    rf"(?P<kept>{name})(?:{value})"
    for name, value in (
        # one word of a shell, or one of a list: 'HF_TOKEN=two words'
        (rf"""(?P<open>["']){_NAME}=""", r"(?:(?!(?P=open))(?:[^\\\n]|\\.))*"),
        (rf"""{_NAME}(?:["']\])?[ \t]*=[ \t]*""", rf"{_STRING}|{_WORD}"),
        (rf"""{_NAME}\\?["'][ \t]*:[ \t]*""", _STRING),
        # without quotes, of short names only flags: KEY: 3 may be a result
        (rf"(?=[\w-]{{6}}){_NAME}[ \t]*:[ \t]+", rf"{_STRING}|{_WORD}"),
        (rf"(?<![\w-]){_FLAG}[ \t]+", rf"{_STRING}|{_WORD}"),
        (r"""(?i:authorization)["']?[ \t]*[:=][ \t]*""", r"""(?P<quote>["'])?[^"'\n]+"""),
        (r"://", r"[^/\s@]+(?=@)"),
    )
]


def redacted(text: str) -> str:
    """Return the output of a program with possible secrets of its environment masked.

    A list of the whole environment, as nccl-tests writes one, keeps only variables about the
    measurement. Elsewhere, values with secret-like names, logins in URLs, and all secrets of this
    process are replaced by `***`.
    """
    text = _LISTED.sub(_listed, masked(text))
    for told in _TOLD:
        text = re.sub(told, _hidden, text)  # compiled when it is first needed
    return text


def says_secret(name: str) -> bool:
    """Return whether a variable's name suggests that its value is secret."""
    return bool(re.fullmatch(_NAME, name.upper()))


def _listed(match: re.Match[str]) -> str:
    name, end = match[1], match[2]
    return match[0] if name.startswith(_ALLOWED) else f'"{name}=***{end}'


def _hidden(match: re.Match[str]) -> str:
    return f"{match['kept']}{match.groupdict().get('quote') or ''}***"
