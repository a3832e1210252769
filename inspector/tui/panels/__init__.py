"""What each panel says, as lines with roles: one module a panel. No Textual here."""
