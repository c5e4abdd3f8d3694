"""The documentation site: pages generated from the code, examples of rules, recorded runs and the README's picture."""
