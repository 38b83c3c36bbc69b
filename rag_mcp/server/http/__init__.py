"""One warm server over HTTP for every host: tokens, guard, life, and the bridge for hosts that only start processes."""
