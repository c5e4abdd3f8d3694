"""Write what kailab ships of vCluster's chart: ``python -m scripts.vcluster_chart CHART.tgz``.

Run it after a change of the default vCluster version; a unit test compares the result with the chart in Go's module
cache.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab.tenants.vcluster.chart import SHIPPED, read_vcluster_chart

if __name__ == "__main__":
    SHIPPED.write_text(read_vcluster_chart(Path(sys.argv[1])).as_text())
