"""Other people's models of the same data."""
