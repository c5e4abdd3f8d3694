"""Facts about KAI's releases, derived from its source trees into ``lab/kai/derived``."""
