"""`python -m analyzer` is `kvpm`."""

from analyzer.cli import main

main()
