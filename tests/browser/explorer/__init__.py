"""What explorer_test.py asks of the explorer, a module for each part."""
