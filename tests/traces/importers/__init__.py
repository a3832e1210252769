"""Logs written for these tests, in the form that the engines print; the right numbers are worked out by hand."""
