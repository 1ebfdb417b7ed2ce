"""Measure each experiment once, at a small size.

The lessons' statements about their experiments are tested on recordings, in
tests/fast/experiments. The kernel's behaviour is tested in tests/lab/models/test_kernel_facts.py.
"""
