"""Test buffers against published and measured figures."""

from __future__ import annotations

import functools

from tcplab.models import (
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    window_from_buffer,
)


def test_a_request_is_doubled_capped_and_raised() -> None:
    assert receive_buffer_grant(10_000, 212_992) == 20_000
    assert send_buffer_grant(1_000_000, 212_992) == 425_984
    assert receive_buffer_grant(1, 212_992) == 2304
    assert send_buffer_grant(0, 212_992) == 4608


def test_default_socket_offers_64240_or_65160_bytes() -> None:
    """Linux offers 64240 bytes in a SYN and 65160 in a SYN-ACK. Buffers up to 6 MB need scale 7."""
    of = functools.partial(receive_window, tcp_rmem_max_bytes=6_291_456, rmem_max_bytes=212_992)
    client = of(131_072, autotuned=True, mss=1460)
    assert (client.syn_window_bytes, client.window_scale) == (64_240, 7)
    server = of(131_072, autotuned=True)
    assert (server.syn_window_bytes, server.window_scale) == (65_160, 7)
    small = [of(buffer, autotuned=False) for buffer in (2304, 4096, 8192, 65_536)]
    assert [window.usable_bytes for window in small] == [576, 724, 2896, 39_096]
    fixed = of(65_536, autotuned=False)
    assert (fixed.syn_window_bytes, fixed.window_scale) == (31_856, 0)


def test_the_window_rule_changed_with_linux_6_6() -> None:
    assert window_from_buffer(131_072, (6, 5)) == 65_536
    assert window_from_buffer(131_072, (6, 6)) == 81_920
    assert window_from_buffer(131_072, (6, 6), payload_bytes=0) == 65_536
