"""Makes what a release publishes; the release workflow runs these modules."""
