"""Time integrators of the retained system."""
