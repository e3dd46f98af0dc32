"""`python -m gateway`, and the command `gateway`."""

import sys


def main() -> int:
    """Run one command and return its exit code."""
    if sys.argv[1:] == ["--version"]:  # scripts ask for it often, and need none of the verbs
        from gateway.base.process import describe_version
        from gateway.ledger.versions import VERSION

        sys.stdout.write(f"gateway {describe_version(VERSION)}\n")
        return 0
    from gateway.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
