"""From a model to costs: device catalogue, roofline, collectives, memory.

Every number comes from counts of the model's operators, a row of the device catalogue, and rules that are the same
for all models.
"""

from piper.costs.cluster import Cluster
from piper.costs.devices import Device, device, device_names, use_devices
from piper.costs.operators import operator_seconds
from piper.costs.workload import workload_from_model

__all__ = ["Cluster", "Device", "device", "device_names", "operator_seconds", "use_devices", "workload_from_model"]
