"""Whole screens: the view itself and its help."""
