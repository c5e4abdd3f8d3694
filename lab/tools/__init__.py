"""Command-line tools: processes start in ``process``, and each tool has one facade."""
