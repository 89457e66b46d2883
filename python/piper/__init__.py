"""Piper: plan how to train and serve large neural networks, with proof of optimality."""
