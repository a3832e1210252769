"""The terminal views. model, pages, panels and feed know no Textual; widgets and screens show what those prepare."""
