"""Files of data sets: found, downloaded, cached and read."""

__all__: list[str] = []
