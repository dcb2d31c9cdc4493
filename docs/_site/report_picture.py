"""Draws `docs/assets/report.png`: the first screen of the report that the README's example writes.

    python docs/_site/report_picture.py

It runs the code of the README's section "Records", and needs chromium, chromedriver and Pillow.
"""

import base64
import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
PICTURE = ROOT / "docs" / "assets" / "report.png"
SIZE = {"width": 900, "height": 760, "deviceScaleFactor": 1.5, "mobile": False}


def main() -> None:
    """Trains, and draws what a browser shows."""
    from chromium import chromium

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text.partition("## Records")[2], re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(code, "README.md", "exec"), {})
        for driver in chromium():
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SIZE)
            driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            driver.get(Path("report.html").resolve().as_uri())
            shot = driver.execute_cdp_cmd("Page.captureScreenshot", {})
    # A few colours are enough, and half of the bytes.
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    picture.quantize(64).save(PICTURE, optimize=True)
    print(PICTURE, f"{os.path.getsize(PICTURE) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
