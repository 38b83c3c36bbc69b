"""The page: what an assistant is told, to look at. Read-only HTML behind the same tokens, without a line of script."""
