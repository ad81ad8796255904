"""Analytical latency models, evaluated on the same decisions as the simulated rungs."""

from cosim.analytic.adapter import analytic_system
from cosim.analytic.comoe import CoMoE, CoMoEReconstructed
from cosim.analytic.evaluate import RUNG, analytic_rungs, layers_frame
from cosim.analytic.function import FunctionModel, load_function
from cosim.analytic.hcrmap import HCRMap
from cosim.analytic.hda_moe import HDAMoE
from cosim.analytic.interface import STAGES, AnalyticModel, LayerTimes
from cosim.analytic.parameters import Parameter, Parameters
from cosim.analytic.quantities import Quantity, quantity, quantity_names
from cosim.analytic.registry import load_all, load_analytic, model_names
from cosim.analytic.system import AnalyticSystem, ModelNumbers, Routes
from cosim.analytic.table import Figure, FigureTable, read_table

__all__ = [
    "RUNG",
    "STAGES",
    "AnalyticModel",
    "AnalyticSystem",
    "CoMoE",
    "CoMoEReconstructed",
    "Figure",
    "FigureTable",
    "FunctionModel",
    "HCRMap",
    "HDAMoE",
    "LayerTimes",
    "ModelNumbers",
    "Parameter",
    "Parameters",
    "Quantity",
    "Routes",
    "analytic_rungs",
    "analytic_system",
    "layers_frame",
    "load_all",
    "load_analytic",
    "load_function",
    "model_names",
    "quantity",
    "quantity_names",
    "read_table",
]
