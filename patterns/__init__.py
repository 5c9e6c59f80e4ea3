"""Ready-made data models, one file each, built from odm's public names alone and imported as `odm.patterns.<name>`."""

if __name__ != "odm.patterns":
    raise ImportError("import odm.patterns, not patterns: this folder is part of odm, linked there", name=__name__)
