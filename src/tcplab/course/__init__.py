"""The lessons as such: predictions, claims, listings, what is ready and what has been done."""
