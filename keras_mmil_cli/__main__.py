"""`python -m keras_mmil_cli` is `keras-mmil`."""

import sys

from keras_mmil_cli.main import main

__all__ = []

if __name__ == "__main__":
    sys.exit(main())
