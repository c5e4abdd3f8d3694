"""Scenarios in which a pod does not run: their catalogue, and the program that captures them on a lab."""
