"""The rules that look at objects, one file a theme; those that read messages are rows of the .toml files."""
