from tests.support.grading.fixtures import course, sandbox_or_skip

__all__ = ["course", "sandbox_or_skip"]
