"""What a given configuration takes: iteration time, FLOP/s and memory without any search for a plan."""

from piper.prediction.configuration import Configuration
from piper.prediction.predict import predict
from piper.prediction.result import Prediction

__all__ = ["Configuration", "Prediction", "predict"]
