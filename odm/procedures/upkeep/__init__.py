"""Procedures over whole tables: backfills, moves to other keys and shards, loads, and what does not fit."""
