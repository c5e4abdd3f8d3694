"""What unit tests share: fakes, builders and lab states."""
