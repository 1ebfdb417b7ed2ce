"""Test buffers against published and measured figures."""

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


def test_the_window_of_a_small_buffer_is_less_than_the_buffer() -> None:
    windows = [receive_window(buffer) for buffer in (2304, 4096, 8192, 65_536)]
    assert windows == [576, 724, 2896, 39_096]


def test_the_window_rule_changed_with_linux_6_6() -> None:
    assert window_from_buffer(131_072, (6, 5)) == 65_536
    assert window_from_buffer(131_072, (6, 6)) == 81_920
    assert window_from_buffer(131_072, (6, 6), payload_bytes=0) == 65_536
