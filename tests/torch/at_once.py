"""For programs that must go by their plans at the same steps on every machine."""

import spillway


def plan_at_once() -> None:
    """Plans are made by the training thread, and followed without asking the clock whether they help."""
    read = spillway.api.read_options
    spillway.api.read_options = lambda *words: read(*words) | {"plans_at_once": True, "judges_plans": False}
