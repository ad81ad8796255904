#include "endpoint/inflow.hpp"

#include "sim/canonical.hpp"

namespace cosim::endpoint {

// Of each copy what is read at its source, if it has one, and what is written at the reader.
void Inflows::regions(sim::Canonical& c, std::int32_t reader) const {
  for (const Inflow& in : flows_) {
    if (in.source >= 0) {
      c.region({in.source, reader, in.task, in.address, in.address + in.bytes, in.address + in.granted});
    }
    c.region({reader, -1, in.task, in.to_address, in.to_address + in.bytes, in.to_address + in.asked});
  }
}

// Progress counts from what has been written.
void Inflows::canonical(sim::Canonical& c, sim::TaskGraph& graph) {
  c.same(room_);
  c.same(flows_.size());
  for (Inflow& in : flows_) {
    c.same(in.task);
    c.same(in.address);
    c.same(in.to_address);
    c.same(in.bytes);
    c.same(in.source);
    c.same(in.message_class);
    for (std::int64_t* at : {&in.granted, &in.arrived, &in.asked}) {
      if (!c.lacks(sim::Part::copies)) c.same(*at - in.written);
      c.grows_below(*at, in.bytes);
    }
    c.grows_below(in.written, in.bytes);
    c.grows(graph.task(in.task).moved_bytes);
  }
}

}  // namespace cosim::endpoint
