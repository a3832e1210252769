"""Other forms in, one file a format: each turns text into a step trace and never invents what the text does not say."""
