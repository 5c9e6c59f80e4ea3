"""The bundled engine next to its peers: ``python -m benchmarks.engine``.

`floors` are what no engine can beat, and `processes` measures in processes of their own.
"""
