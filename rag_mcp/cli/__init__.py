"""The front door for people: one module a group of commands."""
