"""`python -m gateway`, and the command `gateway`."""

import sys


def main() -> int:
    """Run one command and return its exit code."""
    try:
        # Scripts ask for the version often, and it needs none of the verbs.
        if sys.argv[1:] == ["--version"] and _write_version():
            return 0
        from gateway.cli import main as run

        return run()
    except KeyboardInterrupt:  # while the modules are imported
        from gateway.base.process import ExitCode

        return ExitCode.INTERRUPTED


def _write_version() -> bool:
    """Write the version. Return False if stdout is closed or full; the usual path then tells the error."""
    from gateway.base.process import describe_version
    from gateway.ledger.versions import VERSION

    try:
        sys.stdout.write(f"gateway {describe_version(VERSION)}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):  # Python has no stdout if it was closed
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
