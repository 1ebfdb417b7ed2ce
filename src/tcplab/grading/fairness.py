"""Measure whether the length of captures, or a count or size in them, reveals their causes."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcplab.grading.archive import Stored
from tcplab.grading.captures import cause_of

Array = NDArray[Any]
#: By how much the share of causes that are named may exceed chance.
MORE_THAN_CHANCE: Final = 0.15


def seen_in(captures: Sequence[Stored]) -> tuple[Array, Array]:
    """Return the features and the number of the cause of each capture."""
    features = []
    for rows in (capture.segments() for capture in captures):
        features.append([float(rows["time_ns"][-1] - rows["time_ns"][0])])
        for sizes in (rows.sent_by(end)["payload_bytes"] for end in ("client", "server")):
            data = sizes[sizes > 0]
            counts = (len(data), len(sizes) - len(data), sizes.max(initial=0), len(set(data)))
            features[-1] += counts
    return np.array(features), np.unique(list(map(cause_of, captures)), return_inverse=True)[1]


def share_named(features: Array, causes: Array) -> float:
    """Return the share of causes that the five nearest captures name, in the best feature."""
    shares = []
    for values in features.T:
        far = np.abs(values[:, None] - values)
        np.fill_diagonal(far, np.inf)
        nearest = causes[far.argsort(axis=1, kind="stable")[:, :5]]
        shares.append(np.mean([np.bincount(near).argmax() for near in nearest] == causes))
    return float(max(shares))
