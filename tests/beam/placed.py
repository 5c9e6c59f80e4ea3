"""Stores at a place that an environment variable names, for workers that import them."""

import os

from tests.beam import models

source = models.source(*os.environ["ODM_BEAM_PLACE"].split(" ", 1))
target = models.target(*os.environ["ODM_BEAM_PLACE"].split(" ", 1))
