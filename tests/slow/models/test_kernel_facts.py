"""More buffers and another delay for facts that tests/lab/models compares with the models."""

from __future__ import annotations

import pytest
from tests.lab.models.test_kernel_facts import check_costs, check_window, short_lab

from tcplab.lab import Lab

__all__ = ["short_lab"]
pytestmark = [pytest.mark.needs_lab, pytest.mark.timeout(300)]


@pytest.mark.parametrize("requested", [1, 4096, 16_384, 131_072, 200_000])
def test_window_of_a_buffer_is_as_predicted(short_lab: Lab, requested: int) -> None:
    check_window(short_lab, requested)


def test_cost_of_a_message_without_a_delay_is_as_predicted() -> None:
    check_costs(rtt_ms=0)
