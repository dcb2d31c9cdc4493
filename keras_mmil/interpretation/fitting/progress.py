"""A progress bar for work whose amount shows while it is done."""

import keras

__all__ = ["Progress"]


class Progress:
    """A progress bar of steps.

    Args:
        verbose: 1 for a progress bar, 0 for none.
    """

    def __init__(self, verbose):
        self._bar = keras.utils.Progbar(0, verbose=verbose, unit_name="step")
        self._done = 0

    def expect(self, n):
        """So many more steps are to come; None if nobody knows how many, in all from then on."""
        is_known = n is not None and self._bar.target is not None
        self._bar.target = self._bar.target + n if is_known else None

    def step(self):
        """A step is done."""
        self._done += 1
        self._bar.update(self._done)

    def finish(self):
        """All steps are done, or turned out not to be needed."""
        done = self._done if self._bar.target is None else self._bar.target
        self._bar.update(done, finalize=True)
