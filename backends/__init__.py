"""The backends that an application can run on, one folder each, imported as `odm.backends.<name>`."""

if __name__ != "odm.backends":
    raise ImportError("import odm.backends, not backends: this folder is part of odm, linked there", name=__name__)
