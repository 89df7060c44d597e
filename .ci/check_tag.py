"""Whether a tag is that of this version, and CHANGELOG.md has its date: `python .ci/check_tag.py v0.2.0`."""

import re
import sys
import tomllib
from pathlib import Path

root = Path(__file__).resolve().parents[1]
version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")

(tag,) = sys.argv[1:]
if tag != f"v{version}":
    sys.exit(f"The tag {tag} is not v{version}, and pyproject.toml has version {version}.")
if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
    sys.exit(f"CHANGELOG.md has no line `## [{version}] - YYYY-MM-DD`.")
