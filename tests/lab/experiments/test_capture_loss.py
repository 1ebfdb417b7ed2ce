"""Packets that scapy misses: the picture, and mistakes."""

from __future__ import annotations

import pytest

from tcplab import figures
from tcplab.experiments import capture_loss, table


def test_capture_loss_as_a_picture() -> None:
    watched = [
        capture_loss.Watched(500, 500, 502, 502, 0, 0, 1.0, 1.0, ""),
        capture_loss.Watched(None, 1000, 1002, 402, 600, 0, 1.0, 0.01, "scapy was too slow"),
    ]
    result = capture_loss.CaptureLoss(watched, {})
    picture = figures.capture_loss(result)
    assert (
        picture.title == "At 100,000 packets per second scapy has 40 % of them, the recorder 100 %"
    )
    assert "no limit" in table(result).text()
    assert result[None].scapy_drops == 600


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="packets_per_s=5 must be a whole number from 10"):
        capture_loss.measure([5])
    with pytest.raises(ValueError, match="packets_per_s is empty"):
        capture_loss.measure([])
    with pytest.raises(ValueError, match="count=1 must be a whole number from 100"):
        capture_loss.measure(count=1)
