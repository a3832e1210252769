"""Widgets of the line API: they draw prepared lines, however many there are, without a widget a line."""
