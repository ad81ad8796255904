#include "bindings/register.hpp"
#include "sim/faults.hpp"
#include "sim/time.hpp"

namespace cosim::bindings {

void register_sim(pybind11::module_& m) {
  namespace py = pybind11;
  m.attr("faults_compiled") = sim::kFaultsCompiled;
  py::class_<sim::Clock>(m, "Clock", "A clock of rational frequency; edge n is at floor(n / frequency) femtoseconds.")
      .def(py::init<std::int64_t, std::int64_t>(), py::arg("hz_numerator"), py::arg("hz_denominator") = 1)
      .def("edge_fs", &sim::Clock::edge_fs, py::arg("edge"))
      .def("edge_at_or_before", &sim::Clock::edge_at_or_before, py::arg("time_fs"))
      .def("edge_at_or_after", &sim::Clock::edge_at_or_after, py::arg("time_fs"))
      .def("edge_after", &sim::Clock::edge_after, py::arg("time_fs"));
}

}  // namespace cosim::bindings
