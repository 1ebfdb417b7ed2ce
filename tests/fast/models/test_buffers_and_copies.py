"""Test buffers, copies and batching against published and measured figures."""

from __future__ import annotations

import functools

from tcplab.models import (
    SENDERS,
    copies_per_byte,
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    udp_batching,
    window_from_buffer,
)

# ---- buffers ----


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
    small = [of(buffer, autotuned=False) for buffer in (2304, 8192, 16_384, 65_536)]
    assert [window.usable_bytes for window in small] == [576, 2896, 8688, 39_096]
    fixed = of(65_536, autotuned=False)
    assert (fixed.syn_window_bytes, fixed.window_scale) == (31_856, 0)


def test_the_window_rule_changed_with_linux_6_6() -> None:
    assert window_from_buffer(131_072, (6, 5)) == 65_536
    assert window_from_buffer(131_072, (6, 6)) == 81_920
    assert window_from_buffer(131_072, (6, 6), payload_bytes=0) == 65_536


# ---- copies ----


def test_copies_per_byte_are_counted_for_each_sender() -> None:
    totals = {name: copies_per_byte(name, "discard").total for name in SENDERS}
    assert totals == {
        "read+send": 2,
        "mmap+send": 1,
        "write": 1,
        "sendfile": 0,
        "splice": 0,
        "vmsplice": 0,
        "zerocopy": 0,
    }
    assert copies_per_byte("read+send").total == 3 * copies_per_byte("sendfile").total


def test_zerocopy_to_the_same_machine_copies_after_all() -> None:
    assert copies_per_byte("zerocopy", path="same machine").transit == 1
    assert copies_per_byte("sendfile", path="same machine").transit == 0


# ---- batching ----


def test_udp_gso_saves_trips_and_sendmmsg_only_calls() -> None:
    plain = udp_batching(1472)
    many = udp_batching(1472, "sendmmsg", 42)
    gso = udp_batching(1472, "udp_segment", 42)
    assert many.bytes_per_call == gso.bytes_per_call == 42 * plain.bytes_per_call
    assert many.trips_per_call == 42 * plain.trips_per_call
    assert gso.trips_per_call == plain.trips_per_call


def test_udp_segment_stops_at_one_ip_packet() -> None:
    assert udp_batching(1440, "udp_segment", 1000).packets_per_call == 45
    assert udp_batching(10, "udp_segment", 1000).packets_per_call == 128
