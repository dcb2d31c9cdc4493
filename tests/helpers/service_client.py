"""The HTTP service of the examples, asked in this process."""

import asyncio
import json

import httpx

from service.app import create_app

__all__ = ["Client"]


class Client:
    """Asks a service, and stops it at the end of a `with` block."""

    def __init__(self, served, limits=None):
        self.app = create_app(served, limits)

    def __enter__(self):
        self._runner = asyncio.Runner()
        self._lifespan = self.app.router.lifespan_context(self.app)
        self.run(self._lifespan.__aenter__())
        transport = httpx.ASGITransport(self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://service")
        return self

    def __exit__(self, *exception):
        self.run(self.http.aclose())
        self.run(self._lifespan.__aexit__(None, None, None))
        self._runner.close()

    def run(self, coroutine):
        return self._runner.run(coroutine)

    def get(self, path):
        return self.run(self.http.get(path))

    def post(self, body, path="/predict", headers=None):
        """Ask; the body is JSON already if it is bytes."""
        return self.run(self.posting(body, path, headers))

    async def posting(self, body, path="/predict", headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", **(headers or {})}
        return await self.http.post(path, content=content, headers=headers)
