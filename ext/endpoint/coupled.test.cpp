// Compute, command-level memory and flit network wired together without Python, small enough to work out by hand.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "endpoint/compute_node.hpp"
#include "endpoint/flit_network_node.hpp"
#include "endpoint/memory_node.hpp"
#include "mem/address_map.hpp"
#include "mem/test_channels.hpp"
#include "noc/topology.hpp"
#include "sim/engine.hpp"

using namespace cosim;

namespace {

constexpr sim::Fs kNs = 1'000'000;
constexpr std::int64_t kTile = 256;
constexpr std::int64_t kRow = 1024;

// A burst, 32 columns, 2 pseudo-channels, 4 bank groups, 4 banks, 64 rows: from the least significant bit on.
mem::AddressMap address_map(int access_bytes = 32) {
  std::vector<mem::AddressMap::Bit> bits;
  int at = access_bytes == 32 ? 5 : 7;
  const auto field = [&](mem::Field f, int count) {
    for (int i = 0; i < count; ++i) bits.push_back({f, i, std::uint64_t{1} << at++});
  };
  field(mem::Field::column, 5);
  field(mem::Field::pseudo_channel, 1);
  field(mem::Field::bank_group, 2);
  field(mem::Field::bank, 2);
  field(mem::Field::row, 6);
  return {{1, 2, 1, 4, 4, 64, 32}, access_bytes, bits};
}

// A line of four routers: memory at both ends, compute at the two in the middle. Links of one 64 B flit a cycle and
// latency 2, routers of four stages, packets of at most four flits.
struct Line {
  sim::Engine engine;
  std::int32_t near, far, memory, other, network;

  // other_bytes: a burst of the memory at the far end, 32 or 128. payload_bytes: of a packet of the near one.
  explicit Line(std::int64_t buffer_tiles = 4, std::int32_t return_slots = 64, int other_bytes = 32,
                std::int64_t payload_bytes = 256) {
    endpoint::ComputeNodeConfig c;
    c.tile_bytes = kTile;
    c.buffer_tiles = buffer_tiles;
    c.grant_latency_cycles = 1;
    near = engine.add(std::make_unique<endpoint::ComputeNode>(c, engine.graph()));
    far = engine.add(std::make_unique<endpoint::ComputeNode>(c, engine.graph()));
    endpoint::MemoryNodeConfig m;
    m.read_return_slots = return_slots;
    m.packet_payload_bytes = payload_bytes;
    m.grant_latency_fs = kNs;
    m.network = 5;
    memory =
        engine.add(std::make_unique<endpoint::MemoryNode>(m, mem::test::hbm2_channel(), address_map(), engine.graph()));
    m.packet_payload_bytes = 256;
    other = engine.add(std::make_unique<endpoint::MemoryNode>(m, mem::test::hbm2_channel(other_bytes),
                                                              address_map(other_bytes), engine.graph()));
    noc::NetworkSpec spec;
    spec.num_vcs = 4;
    spec.vc_buf_size = 8;
    spec.classes = {{1, 2}, {6, 1}, {8, 0}};
    const std::array<std::int32_t, 1> shape = {4};
    const std::array<std::int32_t, 1> latency = {2};
    noc::build_mesh(spec, shape, 1, latency, 8);
    endpoint::FlitNetworkNodeConfig n;
    n.flit_bytes = 64;
    n.max_packet_flits = 4;
    n.message_classes = 3;
    n.endpoint_node = {memory, near, far, other};
    n.endpoint_terminals = {{0}, {1}, {2}, {3}};
    network = engine.add(std::make_unique<endpoint::FlitNetworkNode>(spec, n, 0));
    engine.graph().set_network(network);
  }

  std::int64_t submit(const std::vector<sim::Task>& tasks, sim::Fs effective = 0,
                      const std::vector<std::int64_t>& before = {}, const std::vector<std::int64_t>& after = {}) {
    return engine.graph().submit(tasks, before, after, effective, engine.now());
  }
  [[nodiscard]] const endpoint::MemoryNode& memory_node(std::int32_t id) {
    return dynamic_cast<const endpoint::MemoryNode&>(engine.node(id));
  }
  [[nodiscard]] const endpoint::ComputeNode& compute_node(std::int32_t id) {
    return dynamic_cast<const endpoint::ComputeNode&>(engine.node(id));
  }
  [[nodiscard]] const endpoint::FlitNetworkNode& network_node() {
    return dynamic_cast<const endpoint::FlitNetworkNode&>(engine.node(network));
  }
  // Runs until nothing is left; everything must have come home.
  std::vector<sim::Task> finish() {
    REQUIRE(engine.run(10'000'000, true) == sim::Stop::idle);
    CHECK(network_node().conservation_error() == "");
    CHECK(network_node().messages_in_flight() == 0);
    for (const std::int32_t id : {memory, other}) CHECK(memory_node(id).conservation_error() == "");
    for (const std::int32_t id : {near, far}) {
      CHECK(compute_node(id).unfinished() == 0);
      CHECK(compute_node(id).free_tiles() == compute_node(id).buffer_tiles());
    }
    std::vector<sim::Task> tasks;
    for (const auto& record : engine.graph().take_records()) tasks.push_back(record.task);
    return tasks;
  }
};

sim::Task fetch(std::int32_t from, std::int32_t to, std::int64_t bytes, std::int64_t address = 0) {
  sim::Task t;
  t.kind = sim::TaskKind::fetch;
  t.message_class = 1;
  t.source = from;
  t.destination = to;
  t.bytes = bytes;
  t.address = address;
  return t;
}

sim::Task prefetch(std::int32_t from, std::int32_t to, std::int64_t bytes, std::int64_t key, std::int64_t address = 0) {
  sim::Task t = fetch(from, to, bytes, address);
  t.message_class = 2;
  t.prefetch = 1;
  t.key = key;
  return t;
}

sim::Task compute(std::int32_t at, std::int64_t cycles, std::int64_t stream) {
  sim::Task t;
  t.kind = sim::TaskKind::compute;
  t.source = t.destination = at;
  t.cycles = cycles;
  t.stream = stream;
  return t;
}

sim::Task transfer(std::int32_t from, std::int32_t to, std::int64_t bytes) {
  sim::Task t;
  t.kind = sim::TaskKind::transfer;
  t.source = from;
  t.destination = to;
  t.bytes = bytes;
  return t;
}

sim::Task copy(std::int32_t from, std::int32_t to, std::int64_t bytes, std::int64_t address, std::int64_t to_address) {
  sim::Task t;
  t.kind = sim::TaskKind::copy;
  t.message_class = 2;
  t.source = from;
  t.destination = to;
  t.bytes = bytes;
  t.address = address;
  t.to_address = to_address;
  return t;
}

sim::Task revoke(std::int32_t at, std::int64_t of) {
  sim::Task t;
  t.kind = sim::TaskKind::revoke;
  t.destination = at;
  t.stream = of;
  return t;
}

// Prefetches, an adoption, a revoke, copies both ways, jobs and transfers, all within two microseconds.
void fill(Line& s) {
  const std::int64_t early = s.submit({prefetch(s.memory, s.near, 2 * kRow, 7)});
  sim::Task demand = fetch(s.memory, s.near, 2 * kRow);
  demand.key = 7;
  s.submit({transfer(s.far, s.near, 700), demand, compute(s.near, 90, 1), fetch(s.other, s.near, kRow, 4 * kRow),
            compute(s.near, 40, 3), transfer(s.near, s.far, 300)},
           150 * kNs, {0, 2}, {2, 5});
  const std::int64_t doomed = s.submit({prefetch(s.other, s.far, kRow, 8, 8 * kRow)}, 20 * kNs);
  s.submit({revoke(s.far, doomed)}, 110 * kNs);
  s.submit({copy(s.memory, s.other, 3 * kRow, 16 * kRow, 40 * kRow), copy(s.other, s.memory, kRow, 0, 64 * kRow)},
           60 * kNs);
  s.submit({fetch(s.memory, s.far, 3 * kRow, 96 * kRow), compute(s.far, 200, 0)}, 400 * kNs);
  CHECK(early == 0);
}

}  // namespace

TEST_CASE("a fetch of one packet crosses memory and network in the cycles that their rules add up to") {
  Line s;
  s.submit({fetch(s.memory, s.near, kTile), compute(s.near, 1, 0)});
  // seen 1, granted 2, memory 3, ACT 4, RD 19 ... 47, last beat 63, network 64, two routers and four flits: 80, seen 81
  CHECK(s.finish()[0].end_fs == 81 * kNs);
}

TEST_CASE("a job waits for each tile, and a used-up tile's room is granted again") {
  Line s(2);
  s.submit({fetch(s.memory, s.near, kRow), compute(s.near, 200, 0)});
  const auto tasks = s.finish();
  CHECK(tasks[1].start_fs == 81 * kNs);
  CHECK(tasks[1].stalled_fs == 15 * kNs);  // tile 2: granted at 131, its row open: seen at 196
  CHECK(tasks[1].end_fs == 296 * kNs);
}

TEST_CASE("two experts of one chiplet stream side by side and compute one after the other") {
  Line s;
  s.submit({fetch(s.memory, s.near, kTile), fetch(s.memory, s.near, kTile, kRow), compute(s.near, 20, 0),
            compute(s.near, 20, 1)});
  const auto tasks = s.finish();
  CHECK(tasks[0].end_fs == 81 * kNs);
  CHECK(tasks[1].end_fs == 85 * kNs);
  CHECK(tasks[3].start_fs == 101 * kNs);
  CHECK(tasks[3].waited_fs == 20 * kNs);
}

TEST_CASE("a copy is read in one memory and written in the banks of the other") {
  Line s;
  s.submit({copy(s.memory, s.other, kTile, 0, 0)});
  CHECK(s.finish()[0].end_fs == 142 * kNs);
  CHECK(s.memory_node(s.other).written_bytes() == kTile);
}

TEST_CASE("a burst of a copy is written when it is whole, in however many packets it comes") {
  // four bursts there are one here; each leaves in a packet of its own
  Line s(4, 64, 128, 32);
  s.submit({copy(s.memory, s.other, 4 * kRow, 0, 0)});
  const std::vector<sim::Task> tasks = s.finish();
  CHECK(tasks.size() == 1);
  CHECK(tasks[0].moved_bytes == 4 * kRow);
  CHECK(s.memory_node(s.other).written_bytes() == 4 * kRow);
}

TEST_CASE("a revoked prefetch gives its room back and leaves the rest of its bursts in their banks") {
  Line s;
  const std::int64_t id = s.submit({prefetch(s.memory, s.near, kRow, 7)});
  s.submit({revoke(s.near, id)}, 100 * kNs);
  CHECK(s.finish()[0].end_fs == 136 * kNs);
  CHECK(s.memory_node(s.memory).read_bytes() == 22 * 32);
  CHECK(s.memory_node(s.memory).cancelled_bytes() == 10 * 32);
  CHECK(s.compute_node(s.near).wasted_bytes() == 22 * 32);
}

TEST_CASE("a return buffer as small as a packet still lets every burst through") {
  for (const std::int32_t slots : {8, 9, 16}) {
    Line s(4, slots);
    fill(s);
    CHECK(s.finish().size() == 13);
  }
}

TEST_CASE("any order of the nodes gives the same end state") {
  Line expected;
  fill(expected);
  expected.finish();
  const std::vector<std::vector<std::int32_t>> orders = {{5, 4, 3, 2, 1, 0}, {3, 5, 0, 4, 1, 2}, {2, 0, 5, 1, 4, 3}};
  for (const auto& order : orders) {
    Line s;
    s.engine.set_order(order);
    fill(s);
    s.finish();
    CHECK(s.engine.save() == expected.engine.save());
  }
}

TEST_CASE("cut anywhere, saved, loaded into a new engine and resumed: the same end state") {
  Line whole;
  fill(whole);
  REQUIRE(whole.engine.run(10'000'000, true) == sim::Stop::idle);
  const auto expected = whole.engine.save();
  const std::int64_t length = whole.engine.instants();
  for (std::int64_t cut = 1; cut < length; cut += 37) {
    Line first;
    fill(first);
    REQUIRE(first.engine.run(cut, true) == sim::Stop::budget);
    const auto saved = first.engine.save();
    Line second;
    second.engine.load(saved);
    CHECK(second.engine.save() == saved);
    REQUIRE(second.engine.run(10'000'000, true) == sim::Stop::idle);
    CHECK(second.engine.save() == expected);
  }
}

TEST_CASE("the same work later costs the same instants") {
  std::vector<std::int64_t> instants;
  for (const sim::Fs start : {sim::Fs{0}, 1'000'000 * kNs}) {
    Line s;
    s.submit({fetch(s.memory, s.near, kRow), compute(s.near, 200, 0)}, start);
    s.finish();
    instants.push_back(s.engine.instants());
  }
  CHECK(instants[0] == instants[1]);
}

TEST_CASE("a stream whose grant never comes is a deadlock that names nodes and tiles") {
  Line s;
  // the job waits for the fetch's tiles, the fetch for the job
  s.submit({fetch(s.memory, s.near, kTile), compute(s.near, 10, 0)}, 0, {1}, {0});
  std::string text;
  try {
    s.engine.run(1'000'000, true);
  } catch (const sim::DeadlockError& e) {
    text = e.what();
  }
  CHECK(text.find("task 0 (fetch") != std::string::npos);
  CHECK(text.find("waits for the first tile of task 0") != std::string::npos);
}

TEST_CASE("a memory node says what is wrong with its configuration") {
  sim::TaskGraph graph;
  endpoint::MemoryNodeConfig m;
  m.packet_payload_bytes = 16;
  CHECK_THROWS_AS(endpoint::MemoryNode(m, mem::test::hbm2_channel(), address_map(), graph), std::invalid_argument);
  m.packet_payload_bytes = 256;
  m.read_return_slots = 7;
  CHECK_THROWS_AS(endpoint::MemoryNode(m, mem::test::hbm2_channel(), address_map(), graph), std::invalid_argument);
}
