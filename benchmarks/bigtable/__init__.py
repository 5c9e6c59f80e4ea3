"""Measurements of the Bigtable backend next to the vendor's data client: ``python -m benchmarks.bigtable --help``.

`readings` says what is stored and read, eight cells a row. `ours` and `vendor` have the contenders, `server` packs rows
into messages as Google's servers do, which the emulator does not; `races` says who runs against whom, `report` prints.
"""
