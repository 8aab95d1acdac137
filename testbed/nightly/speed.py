"""Compare the times of a run with the baselines, arm by arm; pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.nightly.baseline import Slower
from testbed.report.junit import Case, Fate
from testbed.report.wording import spread


@dataclass(frozen=True, slots=True)
class SpeedComparison:
    """The metrics of a run that have a baseline, and those of them that are slower."""

    compared: Mapping[str, float]
    slower: Sequence[Slower]

    def also_in(self, before: SpeedComparison) -> SpeedComparison:
        """Return the comparison with only those slower metrics that were slower before, too."""
        known = {(one.arm, one.metric) for one in before.slower}
        both = [one for one in self.slower if (one.arm, one.metric) in known]
        return replace(self, slower=tuple(both))

    def cases(self, *, is_sure: bool) -> Iterator[Case]:
        """Yield a test case per arm with baselines; unless `is_sure`, no case fails."""
        arms = [name.rpartition(".")[0] for name in self.compared]
        for arm in dict.fromkeys(arms):
            words = [_words(one) for one in self.slower if one.arm == arm]
            name, fate = f"{arm} is as fast as before", _fate(bool(words), is_sure)
            said = "; ".join(words) or f"{arms.count(arm)} metrics"
            yield Case("baseline", name, fate, said if is_sure else f"{said}; it was run again")


def _fate(is_slower: bool, is_sure: bool) -> Fate:
    if not is_slower:
        return "passed"
    return "failure" if is_sure else "skipped"


def _words(one: Slower) -> str:
    now, before = spread(*one.interval, one.unit), spread(*one.baseline, one.unit)
    return f"{one.metric} is slower: {now}, before {before}"
