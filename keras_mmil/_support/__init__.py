"""What all rooms use, and no user sees."""
