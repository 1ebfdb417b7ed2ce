"""Check lesson sendfile against its recordings, beyond the bounds of claims."""

import pytest

from tcplab.experiments import sendfile
from tcplab.experiments.sendfile import PUBLISHED_S
from tcplab.models import transfer_ms


def test_published_and_measured_seconds_are_those_of_the_wire() -> None:
    wire = sendfile.measure_wire(sizes_mb=[9, 32, 64], block_bytes=[1024, 8192], runs=1)
    published = [transfer for transfer in wire.variants if transfer.plan.published_s]
    assert len(published) == 3 * len(PUBLISHED_S) == 9
    for transfer in published:
        fastest, slowest = transfer.plan.published_s or (0, 0)
        computed_s = transfer_ms(transfer.plan.file_bytes, 0, 100) / 1000
        # The article's clock stopped once the last bytes were in the send buffer, a few
        # percent before they arrived.
        assert 0.92 * computed_s <= fastest <= 1.01 * computed_s
        assert transfer.row()["published_s"] == f"{fastest:.2f}–{slowest:.2f}"
        assert transfer.seconds == pytest.approx(computed_s, rel=0.05)
