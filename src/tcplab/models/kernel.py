"""Model the kernel's clock tick and RTT estimate, on which its TCP timers are based.

Sources: kernel/time/timer.c (the timer wheel), net/ipv4/tcp_input.c (tcp_rtt_estimator),
include/net/tcp.h; RFC 6298.
"""

from dataclasses import dataclass
from typing import Final

from tcplab.checks import number, whole

#: Ticks per second (CONFIG_HZ) of Debian's kernels and of Ubuntu's until 24.04. Fedora and newer
#: Ubuntu kernels have 1000. time.clock_getres(6), CLOCK_MONOTONIC_COARSE, returns the length of a
#: tick.
DEFAULT_HZ: Final = 250

RTO_MIN_MS: Final = 200.0  # net.ipv4.tcp_rto_min_us since Linux 6.11; a route can set rto_min
PROBE_SLACK_MS: Final = 2.0  # TCP_TIMEOUT_MIN_US
RTO_MAX_MS: Final = 120_000.0  # net.ipv4.tcp_rto_max_ms since Linux 6.15
DELACK_MIN_MS: Final = 40.0  # also TCP_ATO_MIN, the first estimate of the time between segments
DELACK_MAX_MS: Final = 200.0

_FIRST_LEVEL_TICKS: Final = 63  # LVL_START(1)
_LEVEL_BITS: Final = 3  # each level of the wheel is 8 times as coarse as the previous one


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that counts jiffies, the unit of the kernel's TCP timers."""

    hz: int = DEFAULT_HZ
    phase_ms: float = 0.0  #: Time at which a tick occurs, relative to the model's time 0

    def __post_init__(self) -> None:
        whole("hz", self.hz, 24, 10_000, fix="CONFIG_HZ is 100, 250, 300 or 1000")
        number("phase_ms", self.phase_ms, 0, self.tick_ms, fix="give a part of one tick")

    @property
    def tick_ms(self) -> float:
        return 1000 / self.hz

    def jiffies(self, now_ms: float) -> int:
        """Return the number of ticks from the start of the clock to `now_ms`."""
        return int((now_ms - self.phase_ms) // self.tick_ms)

    def ticks(self, duration_ms: float) -> int:
        """Convert a duration to ticks, rounding up as usecs_to_jiffies() does."""
        return -int(-round(duration_ms * 1e6) // round(self.tick_ms * 1e6))

    def expiry_ms(self, now_ms: float, delay_ticks: int) -> float:
        """Return the time at which a timer set at `now_ms` for `delay_ticks` fires.

        A timer never fires early, so it is up to one tick late. It takes 44 ms for 10 ticks of 4 ms
        if it is set just after a tick, and 40 ms just before. A timer of 63 ticks or more goes to
        a coarser level of the wheel, with 8 or more ticks per slot, and may be that much later.
        """
        level = 0
        while delay_ticks >= _FIRST_LEVEL_TICKS << _LEVEL_BITS * level:
            level += 1
        shift = _LEVEL_BITS * level
        slot = (self.jiffies(now_ms) + delay_ticks + (1 << shift)) >> shift
        return (slot << shift) * self.tick_ms + self.phase_ms


class RttEstimator:
    """The smoothed round-trip time and the retransmission timeout as Linux computes them.

    Unlike RFC 6298, Linux never lets the variance term fall below 200 ms. The timeout is therefore
    the smoothed RTT plus at least 200 ms. `srtt_ms` is None before the first sample.
    """

    def __init__(self, rtt_ms: float | None = None) -> None:
        self.srtt_ms: float | None = None
        self.min_rtt_ms = float("inf")
        self._deviation_ms = 0.0  # four times the mean deviation, as in tp->mdev_us
        self._variance_ms = RTO_MIN_MS
        self._max_deviation_ms = RTO_MIN_MS
        self._window_end = 0
        if rtt_ms is not None:
            self.sample(rtt_ms, acked=0, sent=0)

    def sample(self, rtt_ms: float, acked: int, sent: int) -> None:
        """Update the estimates with a measured RTT. `acked` is SND.UNA and `sent` is SND.NXT."""
        rtt_ms = max(rtt_ms, 0.001)
        self.min_rtt_ms = min(self.min_rtt_ms, rtt_ms)
        if self.srtt_ms is None:
            self.srtt_ms = rtt_ms
            self._deviation_ms = 2 * rtt_ms
            self._variance_ms = self._max_deviation_ms = max(self._deviation_ms, RTO_MIN_MS)
            self._window_end = sent
            return
        error = rtt_ms - self.srtt_ms
        self.srtt_ms += error / 8
        change = abs(error) - self._deviation_ms / 4
        # A falling RTT would otherwise raise the deviation as much as a rising one.
        self._deviation_ms += change / 8 if error < 0 and change > 0 else change
        if self._deviation_ms > self._max_deviation_ms:
            self._max_deviation_ms = self._deviation_ms
            self._variance_ms = max(self._variance_ms, self._max_deviation_ms)
        if acked > self._window_end:
            if self._max_deviation_ms < self._variance_ms:
                self._variance_ms -= (self._variance_ms - self._max_deviation_ms) / 4
            self._window_end = sent
            self._max_deviation_ms = RTO_MIN_MS

    @property
    def rto_ms(self) -> float:
        """The retransmission timeout without backoff, 1 s before the first sample (RFC 6298)."""
        if self.srtt_ms is None:
            return 1000.0
        return min(self.srtt_ms + self._variance_ms, RTO_MAX_MS)
