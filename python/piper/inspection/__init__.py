"""What a model or a workload is made of, for `piper.inspect` and ``piper inspect``."""

from piper.inspection.catalogue import Catalogue, catalogue
from piper.inspection.inspect import inspect
from piper.inspection.model import LayerRow, ModelInspection
from piper.inspection.workload import WorkloadInspection

__all__ = ["Catalogue", "LayerRow", "ModelInspection", "WorkloadInspection", "catalogue", "inspect"]
