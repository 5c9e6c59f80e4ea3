"""`odm demo`: `models` declares, `load` fills a file, `questions` asks it, `show` prints, and `run` joins them."""
