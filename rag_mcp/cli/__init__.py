"""The front door for people: one module a group of commands."""

__all__ = ["main"]


def main() -> None:
    """Run ``rag-mcp``: what the console scripts call."""
    from rag_mcp.cli.app import main as run

    run()
