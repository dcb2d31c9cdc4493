"""`python -m keras_mmil.cli` is `keras-mmil`, but for its start: it imports the whole package."""

import sys

from keras_mmil_cli.main import main

__all__ = []

if __name__ == "__main__":
    sys.exit(main())
