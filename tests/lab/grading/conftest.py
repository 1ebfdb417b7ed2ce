from tests.support.grading.fixtures import course, sandbox_or_skip, tiny

__all__ = ["course", "sandbox_or_skip", "tiny"]
