"""Search at random for inputs that break the property tests, for as long as it is told. ``scripts/test.py`` takes the same
inputs every time.

    python3 scripts/fuzz.py --seconds 600                     all property tests
    python3 scripts/fuzz.py --seconds 60 tests/test_globs.py  some of them; what is no option goes to pytest
    python3 scripts/fuzz.py --seed 12345 tests/test_globs.py  one round again

Every round has a seed of its own. The exit code is 1 when a round failed; its seed and pytest's report, with the failing
example, are printed. Such an example belongs into the test, as ``@example(...)``, together with what mends it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time

from bootstrap import ROOT, SetupFailed, clean_environment, ensure, say

NOTHING_CHOSEN = 5  # pytest's exit code when no test was selected


def command(python, seed: int, chosen) -> list:
    """One round: the tests with properties only, at random, and no time limit for a test that is given more examples."""
    options = ["-m", "hypothesis", "--hypothesis-profile=random", f"--hypothesis-seed={seed}", "-q", "--no-header"]
    return [str(python), "-m", "pytest", *options, *chosen]


def search(python, chosen, *, seconds: float, seed=None, call=subprocess.run, clock=time.monotonic) -> int:
    """Run rounds until the time is over, one at least; the exit code."""
    ends, rounds, failed = clock() + seconds, 0, []
    while not rounds or (seed is None and clock() < ends):
        this = random.SystemRandom().getrandbits(32) if seed is None else seed
        done = call(
            command(python, this, chosen), cwd=str(ROOT), env=clean_environment(), capture_output=True, text=True
        )
        rounds += 1
        if done.returncode == NOTHING_CHOSEN:
            say("no property test is among these")
            return 2
        if done.returncode:
            failed.append(this)
            print(done.stdout, done.stderr, sep="\n", flush=True)
            say(f"FAILED with --seed {this}")
    say(f"{rounds} rounds, {len(failed)} failed" + "".join(f", --seed {this}" for this in failed))
    return 1 if failed else 0


def main(arguments) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on starting rounds (default: 60)")
    parser.add_argument("--seed", type=int, help="one round with this seed")
    options, chosen = parser.parse_known_args(arguments)
    try:
        return search(ensure(("dev",)), chosen, seconds=options.seconds, seed=options.seed)
    except SetupFailed as problem:
        say(f"FAILED: setup: {problem}")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
