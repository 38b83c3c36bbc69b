"""What is read out of a text, and nothing else: no file is opened here."""
