"""Describe the effects of a deploy on a deployed platform, and refuse a deploy that would lose data or nodes."""
