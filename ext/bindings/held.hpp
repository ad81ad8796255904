// Python objects kept alive from C++.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

namespace cosim::bindings {

// The last owner may let go of it in any thread.
struct Held {
  explicit Held(pybind11::object held) : object(std::move(held)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    const pybind11::gil_scoped_acquire locked;
    object = pybind11::object();
  }
  pybind11::object object;
};

}  // namespace cosim::bindings
