"""Which pod has which GPU."""
