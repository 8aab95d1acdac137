"""What the model expects, by arithmetic."""

import pytest

from testbed.run.prediction import LinkRate, Physics, predict


def attenuated(hold):
    return predict(
        "attenuate",
        Physics(loss_of_signal=0.002, settle=0.025, link_up=0.010),
        heartbeat=0.2,
        state_bytes=10**6,
        link=LinkRate(1e8, 0.0),
        step=0.050,
        start=0.0,
        hold=hold,
    )


@pytest.mark.parametrize(
    ("hold", "sent_again"), [(0.0, 0.2), (0.15, 0.2), (0.3, 0.6), (0.59, 0.6), (1.0, 1.4)]
)
def test_a_job_without_light_goes_on_when_tcp_sends_again(hold, sent_again):
    terms = attenuated(hold)
    assert terms["total"] == pytest.approx(sent_again + 0.050)
    assert terms["held"] == hold
    assert sum(value for name, value in terms.items() if name != "total") == terms["total"]
