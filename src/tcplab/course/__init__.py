"""The parts of the lessons, such as predictions, claims, listings and progress."""
