"""Declare an experiment by a single function that gives its name, parameters, limits and help.

::

    @experiment("path-mtu", figure=("dropped",))
    def measure(path_mtu: Annotated[int, Between(576, 1499, "bytes"), "its help"] = 1200) -> …:
        \"\"\"Compare path MTU discovery, the black hole, and its fixes on a narrower hop.\"\"\"

The decorator checks the arguments, chooses the mode, and runs, records or replays the experiment.
The command line (`tcplab run path-mtu --path-mtu 1280`) and the controls of panels read the same
declaration.
"""

import ast
import functools
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from tcplab import machine
from tcplab.checks import choice
from tcplab.checks.parameters import Between as Between
from tcplab.checks.parameters import Manual, parameters_of
from tcplab.checks.parameters import Parameter as Parameter
from tcplab.checks.parameters import PythonOnly as PythonOnly
from tcplab.checks.parameters import Spelled as Spelled
from tcplab.errors import MissingError
from tcplab.experiments import recordings
from tcplab.experiments.exclusive import exclusive
from tcplab.experiments.mode import announce_waiting, recorded, why_not_live
from tcplab.experiments.provenance import RUNNING, disturbance, warning
from tcplab.lab.host import started_commands

P = ParamSpec("P")
R = TypeVar("R")
Figure: TypeAlias = Sequence[str] | Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment, as declared by its function."""

    name: str  #: name on the command line, and in the names of recordings
    measure: Callable[..., Any]  #: the decorated function, which checks arguments and mode
    parameters: Mapping[str, Parameter]  #: the parameters of the function except the network
    figure: Figure  #: what `figures.draw` draws
    finding: str = ""  #: template of the figure's title (see tcplab.figures.finding)

    @property
    def summary(self) -> str:
        """The first paragraph of the function's docstring, without its full stop."""
        return Manual.of(self.measure).summary


_SHORT: Final = re.compile(r"\{(most|least|high|low|ratio|same)\}")
_REGISTRY: Final[dict[str, Experiment]] = {}


@functools.cache
def catalogue() -> Mapping[str, tuple[str, str]]:
    """Return the module and the summary of each experiment by its name, without importing any."""
    here, known = Path(__file__), {}
    for path in here.parent.rglob("*.py"):
        parts = path.relative_to(here.parents[2]).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for function in ast.parse(path.read_text()).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in function.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "experiment":
                    text = ast.get_docstring(function) or ""
                    summary = " ".join(text.partition("\n\n")[0].split()).rstrip(".")
                    known[ast.literal_eval(call.args[0])] = module, summary
    return dict(sorted(known.items()))


def find(name: str) -> Experiment:
    """Import and return the experiment with this name."""
    if name not in _REGISTRY:
        choice("experiment", name, catalogue())
        importlib.import_module(catalogue()[name][0])
    return _REGISTRY[name]


def every() -> Mapping[str, Experiment]:
    """Import all experiments, and return them by name in alphabetical order."""
    return {name: find(name) for name in catalogue()}


def declared(measure: Callable[..., Any]) -> Experiment:
    """Return the declaration of a decorated function."""
    return next(declaration for declaration in _REGISTRY.values() if declaration.measure is measure)


def experiment(
    name: str,
    *,
    on_loopback: bool | Callable[..., bool] = False,
    needs: Sequence[str] | Callable[..., Sequence[str]] = (),
    figure: Figure,
    finding: str = "",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function `measure(…) -> Result` as an experiment.

    A call checks its arguments. If it cannot measure here and has no ``network``, it returns the
    recording of the same call, whose provenance["recorded"] says why. It raises ParameterError if
    an argument is out of range, and LabError if no laboratory can be created, a program fails, or
    a needed recording is missing.

    Args:
        name: name of the experiment on the command line and of its recordings
        on_loopback: True if it can run on plain loopback, or a function of the call's arguments
            that returns this
        needs: programs that it runs, or a function of the call's arguments that returns them. If
            one is missing, or the experiment raises MissingError, the recording is returned
        figure: keys of the quantities to draw, or a function of tcplab.figures and the result
        finding: template of the figure's title (see tcplab.figures.finding and :func:`_full`)
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = parameters_of(function)
        parameters.pop("network", None)

        @functools.wraps(function)
        def measure(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            for parameter in parameters.values():
                parameter.check(arguments[parameter.name])
            network = arguments.pop("network", None)
            programs = needs(**arguments) if callable(needs) else needs
            if network is not None:
                machine.require(*programs)
                return cast(R, _run(name, function, network, args, kwargs))
            able = on_loopback(**arguments) if callable(on_loopback) else on_loopback
            if why := why_not_live(on_loopback=able) or machine.lacking(*programs):
                return cast(R, recorded(name, arguments, why))
            try:
                with exclusive(announce_waiting):
                    result = _run(name, function, None, args, kwargs)
            except MissingError as error:
                return cast(R, recorded(name, arguments, str(error)))
            if directory := os.environ.get("TCPLAB_RECORD"):
                recordings.save(directory, name, arguments, result)
            return cast(R, result)

        title = _full(finding, figure)
        _REGISTRY[name] = Experiment(name, measure, parameters, figure, title)
        return measure

    return decorate


def _full(template: str, figure: Figure) -> str:
    """Replace {most} and the like by {KEY.most} with the first key of the figure."""
    if callable(figure):
        return template
    return _SHORT.sub(rf"{{{figure[0]}.\1}}", template)


def _run(name: str, function: Callable[..., Any], network: Any, args: Any, kwargs: Any) -> Any:
    token = RUNNING.set(name)
    try:
        with started_commands() as commands, disturbance(network) as disturbed:
            result = function(*args, **kwargs)
    finally:
        RUNNING.reset(token)
    added = {"experiment": name, "host_commands": list(commands)}
    result = replace(result, provenance=added | dict(result.provenance) | disturbed)
    return replace(result, provenance={**result.provenance, "disturbed": warning(result)})
