"""Nothing in the project runs data or hands it to a shell: told from its syntax trees."""

from __future__ import annotations

import ast
import stat
from pathlib import Path

import pytest

from testbed.twin.keys import write_certificate, write_ssh_key

ROOT = Path(__file__).parents[3]
MODULES = sorted([*(ROOT / "testbed").rglob("*.py"), *(ROOT / "drivers").rglob("*.py")])

CALLS = {
    *("eval", "exec", "compile", "__import__", "input", "execfile"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("asyncio.create_subprocess_shell", "tempfile.mktemp"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.unsafe_load_all"),
}
MODULES_THAT_RUN_DATA = {
    *("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("jsonpickle", "code", "codeop", "pty", "telnetlib"),
}
SHELLS = {"sh", "bash", "dash", "zsh", "/bin/sh", "/bin/bash"}
ALLOWED = {
    # a virtual host's SSH server runs what its client asks for, as any SSH server does
    ("testbed/twin/host.py", "a shell"),
    # hosts get the bytecode of our own sources beside them; nothing is loaded from bytecode here
    ("testbed/bench/bundle.py", "import marshal"),
    ("testbed/bench/bundle.py", "compile"),
}


def findings(path, tree):
    """Yield every construct of a module that could run data, with its line."""
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        for module in _modules(node):
            if module.partition(".")[0] in MODULES_THAT_RUN_DATA:
                yield f"import {module}", node.lineno
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
            first = node.elts[0]
            if isinstance(first, ast.Constant) and first.value in SHELLS and len(node.elts) > 1:
                yield "a shell", node.lineno
        if isinstance(node, ast.Call):
            called = _called(node.func, names)
            if called in CALLS:
                yield called, node.lineno
            for keyword in node.keywords:
                value = getattr(keyword.value, "value", None)
                if keyword.arg == "shell" and value is not False:
                    yield "shell=", node.lineno
                if keyword.arg == "allow_pickle" and value is not False:
                    yield "allow_pickle=", node.lineno
                if keyword.arg in ("Loader", "loader") and "yaml" in names.values():
                    yield "a loader of yaml", node.lineno


def _imported(tree):
    """Yield the local name of everything imported, and what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name.partition(".")[0], one.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _modules(node):
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def _called(function, names):
    """Return the full name of what is called, as far as the imports tell."""
    parts = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ""
    parts.append(names.get(function.id, function.id))
    return ".".join(reversed(parts))


def test_no_module_executes_data():
    assert len(MODULES) > 150
    found = {
        (str(path.relative_to(ROOT)), what, line)
        for path in MODULES
        for what, line in findings(path, ast.parse(path.read_text("utf-8")))
    }
    assert {
        (path, what, line) for path, what, line in found if (path, what) not in ALLOWED
    } == set()
    assert {(path, what) for path, what, _ in found} >= ALLOWED


@pytest.mark.parametrize(
    "code",
    [
        "eval(x)",
        "import os as o\no.system(x)",
        "from os import system as s\ns(x)",
        "import subprocess\nsubprocess.run(x, shell=True)",
        "from subprocess import Popen\nPopen(x, shell=flag)",
        "import pickle",
        "from marshal import loads",
        "import yaml\nyaml.load(x)",
        "from yaml import load\nload(x, Loader=L)",
        "import numpy as np\nnp.load(x, allow_pickle=True)",
        "__import__(x)",
        "run(['sh', '-c', x])",
    ],
)
def test_code_that_executes_data_is_found_under_any_name(code):
    assert list(findings(Path("f"), ast.parse(code)))


def test_similar_but_harmless_calls_are_not_reported():
    code = (
        "import re, json\nre.compile(x)\njson.load(f)\nmodel.eval()\nrun(x, shell=False)\n'eval(x)'"
    )
    assert list(findings(Path("f"), ast.parse(code))) == []


def test_a_key_is_readable_by_its_owner_only(tmp_path):
    write_ssh_key(tmp_path / "id")
    _, key = write_certificate(tmp_path, ["127.0.0.1"])
    for path in (tmp_path / "id", key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):  # nor can another's file wait there for a key
        write_ssh_key(tmp_path / "id")
