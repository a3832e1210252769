"""The report: one HTML page about traces, which holds everything that it shows and asks no network for anything.

`subject` reads a trace once and keeps what a page tells of it, `comparison` puts a diff into the diff verb's own words,
`plots` draws (matplotlib, the extra `report`), `page` fills the templates. Every text on the page passes two gates:
what a reader could not see is made visible as in a terminal, and jinja2 escapes it.
"""
