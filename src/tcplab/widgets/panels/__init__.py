"""The panels. Each has a file with its texts and controls, and a module with its functions."""
