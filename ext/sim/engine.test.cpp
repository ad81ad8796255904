#include "sim/engine.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "endpoint/compute_node.hpp"
#include "endpoint/rate_memory.hpp"
#include "link/link_network.hpp"

using namespace cosim;

namespace {

constexpr sim::Fs kNs = 1'000'000;

// Two routers in a line, a compute node on each, a memory of 64 GB/s on router 0; links of 64 GB/s.
struct Pair {
  sim::Engine engine;
  std::int32_t compute0, compute1, memory, memory1, network;
  Pair() {
    endpoint::ComputeNodeConfig c;
    c.tile_bytes = 1024;
    c.buffer_tiles = 4;
    compute0 = engine.add(std::make_unique<endpoint::ComputeNode>(c, engine.graph()));
    compute1 = engine.add(std::make_unique<endpoint::ComputeNode>(c, engine.graph()));
    endpoint::RateMemoryConfig m;
    m.bytes_per_second = 64'000'000'000;
    m.latency_fs = 20 * kNs;
    m.copy_chunk_bytes = 4096;
    m.network = 5;
    memory = engine.add(std::make_unique<endpoint::RateMemory>(m, engine.graph()));
    memory1 = engine.add(std::make_unique<endpoint::RateMemory>(m, engine.graph()));
    link::LinkNetworkConfig n;
    n.routers = 2;
    n.link_bytes_per_second = {64'000'000'000, 64'000'000'000};
    n.link_target = {1, 0};
    n.next_link = {-1, 0, 1, -1};
    n.endpoint_node = {compute0, compute1, memory, memory1};
    n.endpoint_router = {0, 1, 0, 1};
    n.chunks_per_message = 4;
    network = engine.add(std::make_unique<link::LinkNetwork>(n, 0));
    engine.graph().set_network(network);
  }
  sim::Task transfer(std::int64_t bytes) const {
    sim::Task t;
    t.kind = sim::TaskKind::transfer;
    t.source = compute0;
    t.destination = compute1;
    t.bytes = bytes;
    return t;
  }
  sim::Task fetch(std::int64_t bytes) const {
    sim::Task t;
    t.kind = sim::TaskKind::fetch;
    t.source = memory;
    t.destination = compute1;
    t.bytes = bytes;
    return t;
  }
  sim::Task compute(std::int64_t cycles, std::int64_t stream) const {
    sim::Task t;
    t.kind = sim::TaskKind::compute;
    t.source = t.destination = compute1;
    t.cycles = cycles;
    t.stream = stream;
    return t;
  }
};

}  // namespace

TEST_CASE("one transfer over a reserved link lasts bytes / bandwidth") {
  Pair s;
  const sim::Task t = s.transfer(6400);
  s.engine.graph().submit({&t, 1}, {}, {}, 10 * kNs, 0);
  CHECK(s.engine.run(1000) == sim::Stop::idle);
  const auto records = s.engine.graph().take_records();
  REQUIRE(records.size() == 1);
  CHECK(records[0].task.ready_fs == 10 * kNs);
  CHECK(records[0].task.end_fs == 110 * kNs + 1);  // 6400 B at 64 B/ns; seen by the network 1 fs later
}

TEST_CASE("a fetch streams through the tile buffer and compute starts on the first tile") {
  Pair s;
  const sim::Task tasks[] = {s.fetch(8192), s.compute(800, 0)};
  s.engine.graph().submit(tasks, {}, {}, 0, 0);
  CHECK(s.engine.run(100000) == sim::Stop::idle);
  const auto records = s.engine.graph().take_records();
  REQUIRE(records.size() == 2);
  // grant at 1 ns, read 16 ns + 20 ns latency, link 16 ns: first tile at about 53 ns; 8 tiles of 100 cycles follow
  CHECK(records[1].task.start_fs >= 53 * kNs);
  CHECK(records[1].task.start_fs <= 56 * kNs);
  CHECK(records[1].task.end_fs - records[1].task.start_fs == 800 * kNs);
  CHECK(records[0].task.moved_bytes == 8192);
}

TEST_CASE("results do not depend on the order in which components are called") {
  std::vector<std::vector<std::int32_t>> orders = {{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 4, 0, 5, 3, 1}};
  std::vector<sim::Fs> ends;
  for (const auto& order : orders) {
    Pair s;
    s.engine.set_order(order);
    std::vector<sim::Task> tasks;
    for (int i = 0; i < 6; ++i) {
      tasks.push_back(s.transfer(100 + 77 * i));
      tasks.push_back(s.fetch(3000 + 1000 * i));
      tasks.push_back(s.compute(90 + 10 * i, 3 * i + 1));
    }
    const std::int64_t before[] = {0, 3, 6};
    const std::int64_t after[] = {2, 5, 8};
    s.engine.graph().submit(tasks, before, after, 0, 0);
    REQUIRE(s.engine.run(1'000'000) == sim::Stop::idle);
    std::vector<sim::Fs> run;
    for (const auto& r : s.engine.graph().take_records()) run.push_back(r.task.end_fs);
    if (ends.empty()) ends = run;
    CHECK(run == ends);
  }
}

TEST_CASE("interrupted, saved, loaded into a new engine and resumed: the same end") {
  const auto fill = [](Pair& s) {
    s.engine.set_skipping(false);  // the cut may be at any step, of which a jump has none
    std::vector<sim::Task> tasks = {s.transfer(5000), s.fetch(9000), s.compute(500, 1), s.fetch(2000),
                                    s.compute(70, 3)};
    const std::int64_t before[] = {0};
    const std::int64_t after[] = {2};
    s.engine.graph().submit(tasks, before, after, 0, 0);
  };
  Pair whole;
  fill(whole);
  REQUIRE(whole.engine.run(1'000'000) == sim::Stop::idle);
  const std::int64_t length = whole.engine.instants();
  for (std::int64_t cut = 1; cut < length; cut += 7) {
    Pair first;
    fill(first);
    REQUIRE(first.engine.run(cut) == sim::Stop::budget);
    const auto saved = first.engine.save();
    Pair second;
    second.engine.set_skipping(false);
    second.engine.load(saved);
    REQUIRE(second.engine.run(1'000'000) == sim::Stop::idle);
    CHECK(second.engine.now() == whole.engine.now());
    CHECK(second.engine.save() == whole.engine.save());
  }
}

TEST_CASE("a job whose tokens never come is a deadlock that names it") {
  Pair s;
  sim::Task stuck = s.compute(10, 0);
  stuck.stream = -1;
  const sim::Task tasks[] = {stuck, s.transfer(64)};
  // each waits for the other
  const std::int64_t before[] = {0, 1};
  const std::int64_t after[] = {1, 0};
  s.engine.graph().submit(tasks, before, after, 0, 0);
  CHECK_THROWS_AS(s.engine.run(1000), sim::DeadlockError);
}

TEST_CASE("a demand adopts a prefetch of the same weights, and starved demands take its room") {
  Pair s;
  sim::Task early = s.fetch(4096);
  early.prefetch = 1;
  early.key = 7;
  s.engine.graph().submit({&early, 1}, {}, {}, 0, 0);
  sim::Task later = s.fetch(4096);
  later.key = 7;
  const sim::Task tasks[] = {later, s.compute(100, 0)};
  s.engine.graph().submit(tasks, {}, {}, 500 * kNs, 0);
  REQUIRE(s.engine.run(100000) == sim::Stop::idle);
  auto records = s.engine.graph().take_records();
  REQUIRE(records.size() == 3);
  CHECK(records[1].task.used_bytes == 4096);
  CHECK(records[1].task.moved_bytes == 0);
  CHECK(records[2].task.start_fs == 501 * kNs);  // the first edge strictly after 500 ns

  // a second prefetch fills the buffer; a demand for other weights withdraws it
  early.key = 8;
  s.engine.graph().submit({&early, 1}, {}, {}, s.engine.now(), s.engine.now());
  sim::Task other = s.fetch(4096);
  other.key = 9;
  const sim::Task more[] = {other, s.compute(100, 0)};
  s.engine.graph().submit(more, {}, {}, s.engine.now() + 500 * kNs, s.engine.now());
  REQUIRE(s.engine.run(100000) == sim::Stop::idle);
  const auto& node = dynamic_cast<endpoint::ComputeNode&>(s.engine.node(s.compute1));
  CHECK(node.wasted_bytes() == 4096);
  CHECK(node.free_tiles() == 4);
}

TEST_CASE("a copy is read at one memory, crosses the network and is written at the other") {
  Pair s;
  sim::Task copy;
  copy.kind = sim::TaskKind::copy;
  copy.source = s.memory;
  copy.destination = s.memory1;
  copy.bytes = 20'000;
  s.engine.graph().submit({&copy, 1}, {}, {}, 0, 0);
  REQUIRE(s.engine.run(100000) == sim::Stop::idle);
  const auto records = s.engine.graph().take_records();
  CHECK(records[0].task.moved_bytes == 20'000);
  const auto& target = dynamic_cast<endpoint::RateMemory&>(s.engine.node(s.memory1));
  CHECK(target.written_bytes() == 20'000);
  // at least read + write of the last chunk and the link at 64 B/ns each
  CHECK(records[0].task.end_fs > 312 * kNs);
}
