"""The benchmarks, which no daily test runs, can be run."""

from importlib import import_module
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCH.glob("bench_*.py")))
def test_what_a_benchmark_measures_is_there_to_be_imported(name):
    import_module(f"tests.bench.{name}")
