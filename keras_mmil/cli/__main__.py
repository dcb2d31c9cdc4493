"""`python -m keras_mmil.cli` is `keras-mmil`."""

import sys

from keras_mmil.cli.main import main

__all__ = []

if __name__ == "__main__":
    sys.exit(main())
