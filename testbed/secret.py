"""Secrets by reference: files name an environment variable or a file, never the secret itself.

What was revealed is remembered, so that records can mask it wherever it comes back: instruments
exist that repeat a login in their answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is kept: `{env: NAME}` or `{file: PATH}`.

    It prints as the place, and no message ever holds what is kept there.
    """

    env: str = ""
    file: str = ""

    def reveal(self) -> str:
        """Return the secret, without the line end of a file; raise UsageError without one."""
        word = self._from_environment() if self.env else self._from_file()
        conceal(word)
        return word

    def _from_file(self) -> str:
        try:
            return Path(self.file).expanduser().read_text("utf-8").rstrip("\r\n")
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
        """Return what a file says; raise ValueError, which must not repeat it."""
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


_SHORTEST = 6
"""Shorter words are not masked: they are part of too many others."""
_concealed: set[str] = set()


def conceal(word: str) -> None:
    """Mask `word` from now on in all that this process records."""
    if len(word) >= _SHORTEST:
        _concealed.add(word)
        _concealed.add(word.encode().decode("latin-1"))  # as transcripts spell its bytes


def masked(text: str) -> str:
    """Return text with `***` for every concealed word."""
    for word in sorted(_concealed, key=len, reverse=True):
        text = text.replace(word, "***")
    return text


def masked_data(value: Any) -> Any:
    """Return plain data with its sentences masked; single words are names, to reckon with."""
    if isinstance(value, str):
        return masked(value) if " " in value else value
    if isinstance(value, Mapping):
        return {key: masked_data(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(masked_data, value))
    return value


_ALLOWED = ("NCCL_", "RCCL_", "CUDA_", "HIP_", "ROCR_", "UCX_", "OMPI_", "SLURM_", "TESTBED_")
"""Beginnings of the names of variables that a record of a measurement needs, and may keep."""

_LISTED = re.compile(r'"([A-Za-z_][^"\\=]*)=(?:[^"\\]|\\.|\\$)*("|$)')
_ASSIGNED = re.compile(
    r"\b([A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|KEY|CREDENTIALS?|AUTH))"
    r"""(=["']?|'\s*:\s*')([^\s"',;]+)"""
)
_LOGIN = re.compile(r"(://)[^/\s@]+@")


def redacted(text: str) -> str:
    """Return the output of a program with `***` for what its environment may have held in secret.

    A list of the whole environment, as nccl-tests writes one, keeps only what is about the
    measurement. Elsewhere, values go whose names say that they are secret, logins in URLs, and all
    that this process conceals.
    """
    text = _LISTED.sub(_listed, masked(text))
    return _LOGIN.sub(r"\1***@", _ASSIGNED.sub(r"\1\2***", text))


def _listed(match: re.Match[str]) -> str:
    name, end = match[1], match[2]
    return match[0] if name.startswith(_ALLOWED) else f'"{name}=***{end}'
