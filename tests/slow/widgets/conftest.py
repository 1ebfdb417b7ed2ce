"""The mark of a panel's processes."""

from tests.lab.widgets.conftest import mark

__all__ = ["mark"]
