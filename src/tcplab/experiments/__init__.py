"""Run the experiments of the course. Each is one function that lessons, tests and demos share."""

from tcplab.experiments.declaration import Between as Between
from tcplab.experiments.declaration import PythonOnly as PythonOnly
from tcplab.experiments.declaration import Spelled as Spelled
from tcplab.experiments.declaration import catalogue as catalogue
from tcplab.experiments.declaration import declared as declared
from tcplab.experiments.declaration import every as every
from tcplab.experiments.declaration import experiment as experiment
from tcplab.experiments.declaration import find as find
from tcplab.experiments.on_lab import on_lab as on_lab
from tcplab.experiments.provenance import provenance as provenance
from tcplab.experiments.quantities import Variant as Variant
from tcplab.experiments.quantities import column as column
from tcplab.experiments.quantities import computed as computed
from tcplab.experiments.quantities import derived as derived
from tcplab.experiments.quantities import spread as spread
from tcplab.experiments.result import Result as Result
from tcplab.experiments.result import as_json as as_json
from tcplab.experiments.result import table as table
