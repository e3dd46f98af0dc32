"""`python -m gateway`, and the command `gateway`."""

import sys


def main() -> int:
    """Run one command and return its exit code."""
    if sys.argv[1:] == ["--version"]:  # scripts ask for it often, and need none of the verbs
        from gateway.base.process import find_version

        sys.stdout.write(f"gateway {find_version()}\n")
        return 0
    from gateway.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
