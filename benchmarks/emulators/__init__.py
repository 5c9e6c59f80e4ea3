"""odm's Bigtable emulator next to Google's."""
