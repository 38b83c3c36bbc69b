"""The front door for assistants: tools, protocol, and the hosts that start it."""
