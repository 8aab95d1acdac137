"""The SCPI dialect refuses commands that could remove circuits of others, in any spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.switches.polatis import DENIED
from testbed_drivers.transports.base import Endpoint
from testbed_drivers.transports.options import Timeouts

SPELLINGS = [
    "*RST",
    "*rst",
    ":OXC:SWIT:DISC:ALL",
    "oxc:switch:disconnect:all",
    ":OXC:SWITch:CONN:ONLY (@1),(@17)",
    ":OXC:SWIT:CONN:ONLY(@1),(@17)",
    ":OXC:SWIT:CONN:ADD (@1),(@17);ONLY (@1),(@17)",
    ':OXC:SWIT:CONN:STAT?;*CLS "x;*RST";*RST',
]


def scpi_at(dial):
    at = Endpoint("ocs", "tcp://192.0.2.10:5025", None, Timeouts(), lambda way, data: None, dial)
    return Scpi(at, ends=(b"\n", b"\n"), denied=DENIED)


@pytest.fixture
def scpi():
    def dial(*where, **how):
        pytest.fail("a line was opened for a command that is denied")

    return scpi_at(dial)


@pytest.mark.parametrize("line", SPELLINGS)
def test_a_denied_command_is_refused_before_a_line_is_opened(scpi, line):
    with pytest.raises(UsageError, match="is never sent"):
        scpi.execute([line], Deadline.after(1))
    with pytest.raises(UsageError, match="is never sent"):
        scpi.query(line, str, Deadline.after(1))


@given(st.lists(st.sampled_from(["*CLS", "OXC:SWIT:SIZE?", ":SYST:ERR?", "", " "])), st.data())
def test_a_denied_command_is_refused_at_any_position_in_a_line(before, data):
    denied = data.draw(st.sampled_from(SPELLINGS[:5]))
    orders = [*before, denied, *data.draw(st.permutations(before))]
    # only the first of them starts at the root for sure, so the denied one says its whole path
    orders = [order if order.startswith((":", "*")) else f":{order}" for order in orders]
    scpi = scpi_at(pytest.fail)
    with pytest.raises(UsageError, match="is never sent"):
        scpi.execute(orders, Deadline.after(1))
