"""Serve a trained classifier over HTTP: JSON records in, labels and their reasons out.

Each answer holds what the network says, which rules fired on the record and on what is in it, and
whether network and rules agree. The model is the folder of a `NestedClassifier` that was saved with
its rules, or one with the network of texts, `model.keras`, and its rules, `rules`, as
`keras-mmil run imdb` writes it. It needs `pip install 'keras-mmil[serve]'`.

    python examples/http_service.py MODEL_FOLDER [--port 8000]
    python examples/http_service.py --demo

    curl localhost:8000/predict -H 'content-type: application/json' \\
        -d '{"record": {"orders": [{"items": [{"category": "electronics", "returned": true}]}]}}'

See docs/serving.md. `--quick` starts a smaller demo, asks it about one customer and ends.
"""

import argparse
import asyncio
import json
import logging
import os
import tempfile
import urllib.request
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import uvicorn

from service.app import create_app
from service.connection import patient_for
from service.demo import CUSTOMER, make_demo
from service.limits import Limits
from service.served import Served


def main():
    """Serve what the command line says."""
    options = parse()
    limits = Limits.of(options)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    # Values that the network has not learned to read would be missing, with a warning.
    warnings.filterwarnings("error", ".* are read as missing", UserWarning)
    # All parts of a record may be missing.
    warnings.filterwarnings("ignore", ".* (has|have) nothing at ", UserWarning)
    with tempfile.TemporaryDirectory() as folder:
        if options.model is None:
            print("Training the demo …", flush=True)
            make_demo(folder, *((60, 1) if options.quick else ()))
        served = Served.load(options.model or folder)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(served, limits),
            host=options.host,
            port=options.port,
            http=patient_for(limits.head_seconds),
            ws="none",
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=limits.stop_seconds,
            access_log=False,  # it would hold parts of requests
            log_config=None,  # what is set up above
            server_header=False,
        )
    )
    if options.quick:
        asyncio.run(ask(server))
    else:
        server.run()


async def ask(server):
    """Start a server, ask it about one customer, print the answer, and stop it."""
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.1)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        request = urllib.request.Request(
            f"http://{host}:{port}/predict",
            json.dumps({"record": CUSTOMER}).encode(),
            {"content-type": "application/json"},
        )
        with await asyncio.to_thread(urllib.request.urlopen, request) as answer:
            print(json.dumps(json.load(answer), indent=2, ensure_ascii=False))
    finally:
        server.should_exit = True
        await serving


def parse():
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="the folder of the model")
    parser.add_argument("--demo", action="store_true", help="serve a small model made on the spot")
    parser.add_argument("--quick", action="store_true", help="ask the demo once, and end")
    parser.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    Limits.add_to(parser)
    options = parser.parse_args()
    options.port = 0 if options.quick else options.port
    if (options.model is None) != (options.demo or options.quick):
        parser.error("expected the folder of a model, or --demo")
    return options


if __name__ == "__main__":
    main()
