"""Every export is read back by a library of its target, and compared with the steps that went in."""
