"""Draw the timeline figure. The module `view` decides what it shows, and `paint` draws it."""
