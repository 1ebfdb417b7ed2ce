"""The lessons' own parts: predictions, claims, listings, the readiness test and progress."""
