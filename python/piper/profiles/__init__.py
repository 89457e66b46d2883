"""Measured times of operators and layers: files of profilers, and how they are matched with a model."""

from piper.profiles.match import Measurements, match
from piper.profiles.profile import Profile, Sample
from piper.profiles.read import read_profile

__all__ = ["Measurements", "Profile", "Sample", "match", "read_profile"]
