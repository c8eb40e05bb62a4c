"""The lab: sample pools once, replay every rule on them, evaluate, and report (docs/lab.md)."""
