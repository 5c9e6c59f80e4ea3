"""Apache Beam has an environment of its own, which `.ci/run` makes; it sets ``ODM_BEAM``, which requires Beam."""

import os
from importlib.util import find_spec

if find_spec("apache_beam") is None and os.environ.get("ODM_BEAM"):
    raise RuntimeError("ODM_BEAM is set, but apache_beam is not installed: pip install -e '.[test-beam]'")
