"""Each experiment is measured once, at a small size.

What the lessons state of their experiments is asserted on their recordings in
tests/fast/experiments, and what the kernel does in tests/lab/models/test_kernel_facts.py.
"""
