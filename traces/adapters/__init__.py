"""Recorders for engines that people have: imported into a user's own script, each a `with` around its generate.

They write the step trace and need nothing else of stepscope; the engine itself is whatever the script imported.
"""
