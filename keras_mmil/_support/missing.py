"""What stands for a missing value in tensors that have no NaN."""

__all__ = ["MISSING_INT", "MISSING_TEXT"]

MISSING_TEXT = "\0"
MISSING_INT = -(2**63)
