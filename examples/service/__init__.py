"""The parts of `examples/http_service.py`."""
