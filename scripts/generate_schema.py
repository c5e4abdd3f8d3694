"""Write lab/config/lab.schema.json from the models; run it after a change to lab/config."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # use the models of this checkout, even if another kailab is installed

from lab.config.schema import schema_text  # noqa: E402

if __name__ == "__main__":
    target = ROOT / "lab" / "config" / "lab.schema.json"
    target.write_text(schema_text(), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")
