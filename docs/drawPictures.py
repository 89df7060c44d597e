"""Draw the pictures of docs/guide/pictures.md, by running the page; they go to docs/guide/pictures."""

import os
import re
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

GUIDE = Path(__file__).resolve().parent / "guide"

page = (GUIDE / "pictures.md").read_text(encoding="utf-8")
blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
(GUIDE / "pictures").mkdir(exist_ok=True)
namespace: dict = {}
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for block in blocks:
        exec(block, namespace)
    for picture in Path(folder).glob("*.png"):
        (GUIDE / "pictures" / picture.name).write_bytes(picture.read_bytes())
    os.chdir(GUIDE)
