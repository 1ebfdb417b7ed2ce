"""A decision tree and a forest in numpy, to measure what features of captures reveal."""

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float64]
Labels = NDArray[np.int64]
#: A leaf's label, or (feature, limit, tree for values up to the limit, tree for larger values).
Tree = int | tuple[int, float, "Tree", "Tree"]


def grow(
    points: Features, labels: Labels, depth: int, rng: np.random.Generator, share: float = 1.0
) -> Tree:
    """Grow a tree that splits on the Gini impurity, and looks at this share of the features."""
    most = int(np.bincount(labels).argmax())
    if depth == 0 or len(set(labels.tolist())) == 1:
        return most
    columns = points.shape[1]
    tried = rng.permutation(columns)[: max(1, round(columns * share))]
    best = min((_best_split(points[:, column], labels), int(column)) for column in tried)
    (impurity, limit), column = best
    if not np.isfinite(impurity):
        return most
    below = points[:, column] <= limit
    return (
        column,
        limit,
        grow(points[below], labels[below], depth - 1, rng, share),
        grow(points[~below], labels[~below], depth - 1, rng, share),
    )


def _best_split(values: Features, labels: Labels) -> tuple[float, float]:
    """Return the lowest impurity of a split of these values, and its limit."""
    order = np.argsort(values, kind="stable")
    values, hot = values[order], np.eye(labels.max() + 1)[labels[order]]
    below = hot.cumsum(axis=0)[:-1]
    above = hot.sum(axis=0) - below
    impurity = sum(
        part.sum(axis=1) - (part**2).sum(axis=1) / part.sum(axis=1) for part in (below, above)
    )
    impurity = np.where(values[1:] > values[:-1], impurity, np.inf)
    if not len(impurity):
        return np.inf, 0.0
    at = int(impurity.argmin())
    return float(impurity[at]), float(values[at] + values[at + 1]) / 2


def label(tree: Tree, point: Features) -> int:
    """Return the label that a tree gives a point."""
    while not isinstance(tree, int):
        column, limit, below, above = tree
        tree = below if point[column] <= limit else above
    return tree


def right_share(known: Features, causes: Labels, asked: Features, truth: Labels) -> float:
    """Return the larger share of right labels of a tree and of a forest."""
    rng = np.random.default_rng(1)
    votes = [grow(known, causes, 4, rng)]
    shares = []
    for trees in (1, 60):
        for _ in range(trees - 1):
            drawn = rng.integers(0, len(known), len(known))
            votes.append(grow(known[drawn], causes[drawn], 6, rng, 0.4))
        given = [np.bincount([label(tree, point) for tree in votes]).argmax() for point in asked]
        shares.append(float(np.mean(np.array(given) == truth)))
    return max(shares)
