// Two chiplet networks under a package network, joined by gateways: worked by hand, loaded at random, saved and loaded.
#include "endpoint/gateway.hpp"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "endpoint/compute_node.hpp"
#include "endpoint/flit_network_node.hpp"
#include "noc/topology.hpp"
#include "sim/engine.hpp"
#include "sim/random.hpp"

using namespace cosim;

namespace {

constexpr sim::Fs kNs = 1'000'000;
constexpr std::int32_t kNodes = 11;

// Nodes: 1, 2 endpoints of chiplet 0; 3, 4 of chiplet 1; 5 of the package; 6, 7 gateways up (from chiplet 0, 1);
// 8, 9 down; networks 10 (chiplet 0), 11 (chiplet 1), 12 (package). Chiplets: two routers, endpoint 1 or 3 at router 0
// with the gateway at router 1 beside endpoint 2 or 4. Package: two routers with a gateway each, endpoint 5 at router
// 0.
struct Package {
  sim::Engine engine;
  std::int32_t chiplet[2] = {10, 11};
  std::int32_t package = 12;

  explicit Package(std::int64_t buffer_bytes = 1024, std::int32_t synchroniser = 0,
                   sim::Clock package_clock = sim::Clock(1'000'000'000), std::int64_t package_flit = 64) {
    endpoint::ComputeNodeConfig c;
    c.tile_bytes = 256;
    c.buffer_tiles = 4;
    for (int i = 0; i < 5; ++i) engine.add(std::make_unique<endpoint::ComputeNode>(c, engine.graph()));
    const sim::Clock chiplet_clock(1'000'000'000);
    for (std::int32_t way = 0; way < 4; ++way) {
      endpoint::GatewayConfig g;
      const bool up = way < 2;
      g.name = std::string(up ? "up" : "down") + std::to_string(way % 2);
      g.clock = up ? package_clock : chiplet_clock;
      g.from_clock = up ? chiplet_clock : package_clock;
      g.from_network = up ? chiplet[way % 2] : package;
      g.to_network = up ? package : chiplet[way % 2];
      g.from_flit_bytes = up ? 32 : package_flit;
      g.to_flit_bytes = up ? package_flit : 32;
      g.synchroniser_cycles = synchroniser;
      g.buffer_bytes = {buffer_bytes, buffer_bytes};
      engine.add(std::make_unique<endpoint::Gateway>(g));
    }
    constexpr std::int64_t kPayload = 128;
    for (std::int32_t k = 0; k < 2; ++k) {
      endpoint::FlitNetworkNodeConfig n;
      n.name = "chiplet" + std::to_string(k);
      n.clock = chiplet_clock;
      n.flit_bytes = 32;
      n.max_packet_flits = 4;
      n.message_classes = 2;
      n.endpoint_node = {1 + 2 * k, 2 + 2 * k, 6 + k, 8 + k};
      n.endpoint_terminals = {{0}, {1}, {2}, {2}};
      n.legs = 2;
      n.descends = {0, 0, 0, 1};
      n.gateways = {{6 + k, package_clock, synchroniser}};
      n.nodes = kNodes;
      for (std::size_t e = 0; e < 4; ++e) {
        for (std::int32_t node = 0; node < kNodes; ++node) {
          n.gateway_towards.push_back(node == 1 + 2 * k || node == 2 + 2 * k ? -1 : 0);
          n.payload_towards.push_back(kPayload);
        }
      }
      engine.add(std::make_unique<endpoint::FlitNetworkNode>(spec({{1, 1}, {2, 1}, {4, 0}, {8, 0}}, 2), n, 0));
    }
    endpoint::FlitNetworkNodeConfig n;
    n.name = "package";
    n.clock = package_clock;
    n.flit_bytes = package_flit;
    n.max_packet_flits = static_cast<std::int32_t>(256 / package_flit);
    n.message_classes = 2;
    n.endpoint_node = {5, 6, 7, 8, 9};
    n.endpoint_terminals = {{0}, {1}, {2}, {1}, {2}};
    n.gateways = {{8, chiplet_clock, synchroniser}, {9, chiplet_clock, synchroniser}};
    n.nodes = kNodes;
    for (std::size_t e = 0; e < 5; ++e) {
      for (std::int32_t node = 0; node < kNodes; ++node) {
        n.gateway_towards.push_back(node == 1 || node == 2 ? 0 : node == 3 || node == 4 ? 1 : -1);
        n.payload_towards.push_back(kPayload);
      }
    }
    // terminals: router 0: endpoint 5 and gateway 0, router 1: gateway 1 (and an unused one)
    engine.add(std::make_unique<endpoint::FlitNetworkNode>(spec({{3, 1}, {12, 0}}, 2), n, 0));
    for (std::int32_t e = 1; e <= 4; ++e) engine.graph().set_network_of(e, chiplet[(e - 1) / 2]);
    engine.graph().set_network_of(5, package);
  }

  // Two routers with two terminals each: 0 and 1 at router 0, 2 and 3 at router 1.
  static noc::NetworkSpec spec(std::vector<noc::ClassSpec> classes, std::int32_t concentration) {
    noc::NetworkSpec s;
    s.num_vcs = 4;
    s.vc_buf_size = 4;
    s.classes = std::move(classes);
    const std::array<std::int32_t, 1> shape = {2};
    const std::array<std::int32_t, 1> latency = {2};
    noc::build_mesh(s, shape, concentration, latency, 4);
    return s;
  }

  std::int64_t transfer(std::int32_t from, std::int32_t to, std::int64_t bytes, std::uint8_t message_class = 0,
                        sim::Fs effective = 0) {
    sim::Task t;
    t.kind = sim::TaskKind::transfer;
    t.message_class = message_class;
    t.source = from;
    t.destination = to;
    t.bytes = bytes;
    return engine.graph().submit(std::span(&t, 1), {}, {}, std::max(effective, engine.now()), engine.now());
  }
  const endpoint::FlitNetworkNode& network(std::int32_t id) {
    return dynamic_cast<const endpoint::FlitNetworkNode&>(engine.node(id));
  }
  const endpoint::Gateway& gateway(std::int32_t id) { return dynamic_cast<const endpoint::Gateway&>(engine.node(id)); }
  // Everything must have come home, and the terms of the latencies must sum.
  std::vector<sim::Task> finish() {
    REQUIRE(engine.run(10'000'000, true) == sim::Stop::idle);
    for (std::int32_t id = 6; id <= 9; ++id) {
      CHECK(gateway(id).open_messages() == 0);
      CHECK(gateway(id).conservation_error() == "");
    }
    for (std::size_t c = 0; c < 2; ++c) {
      std::int64_t latency = 0;
      std::int64_t terms = 0;
      for (std::int32_t id = 10; id <= 12; ++id) {
        CHECK(network(id).conservation_error() == "");
        CHECK(network(id).messages_in_flight() == 0);
        const endpoint::JourneyTerms& j = network(id).journeys()[c];
        CAPTURE(id);
        CAPTURE(c);
        latency += j.latency_fs;
        for (const std::int64_t term :
             {j.source_queueing_fs, j.router_fs, j.link_fs, j.serialisation_fs, j.contention_fs, j.gateway_fs}) {
          CHECK(term >= 0);
          terms += term;
        }
      }
      CHECK(latency == terms);
    }
    std::vector<sim::Task> tasks;
    for (const auto& record : engine.graph().take_records()) tasks.push_back(record.task);
    return tasks;
  }
};

}  // namespace

TEST_CASE("one packet over three networks, to the cycle") {
  Package p;
  p.transfer(1, 4, 32);
  const auto tasks = p.finish();
  // Seen at 1, the gateway is asked and sees it at 2, its grant leaves at 3 and is seen at 4. One flit over two routers
  // and a link of 2 takes 2 x 4 + 2 + 3 = 13: read at 17. The gateway sees it at 18, the package at 19; it asks the
  // next gateway, as above, and has room at 22. Read at 35, in the chiplet at 37, read at 50.
  CHECK(tasks[0].end_fs == 50 * kNs);
  const endpoint::JourneyTerms& up = p.network(10).journeys()[0];
  const endpoint::JourneyTerms& middle = p.network(12).journeys()[0];
  const endpoint::JourneyTerms& down = p.network(11).journeys()[0];
  CHECK(down.packets == 1);
  CHECK(down.latency_fs == 46 * kNs);
  CHECK(up.gateway_fs == 0);
  CHECK(middle.gateway_fs == 5 * kNs);
  CHECK(down.gateway_fs == 2 * kNs);
  for (const auto* leg : {&up, &middle, &down}) {
    CHECK(leg->router_fs == 8 * kNs);
    CHECK(leg->link_fs == 5 * kNs);
    CHECK(leg->contention_fs == 0);
  }
}

TEST_CASE("random transfers: conserved, the same in any order of the nodes, saved and loaded") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto build = [&] {
      auto p = std::make_unique<Package>(
          256 + 128 * static_cast<std::int64_t>(seed % 3), static_cast<std::int32_t>(seed % 3),
          seed % 2 == 0 ? sim::Clock(700'000'000) : sim::Clock(3'000'000'000, 2), seed % 2 == 0 ? 128 : 16);
      sim::RandomStream random(seed, 0);
      for (int i = 0; i < 60; ++i) {
        const auto from = static_cast<std::int32_t>(1 + random.below(5));
        auto to = static_cast<std::int32_t>(1 + random.below(4));
        if (to >= from) ++to;
        p->transfer(from, to, static_cast<std::int64_t>(1 + random.below(900)),
                    static_cast<std::uint8_t>(random.below(2)), static_cast<sim::Fs>(random.below(400)) * kNs);
      }
      return p;
    };
    auto plain = build();
    std::vector<sim::Task> want = plain->finish();
    auto turned = build();
    std::vector<std::int32_t> order;
    for (auto i = static_cast<std::int32_t>(turned->engine.nodes()); i-- > 0;) order.push_back(i);
    turned->engine.set_order(order);
    const std::vector<sim::Task> same = turned->finish();
    auto first = build();
    while (first->engine.run(97) == sim::Stop::budget) {
      const auto bytes = first->engine.save();
      auto second = build();
      second->engine.load(bytes);
      first = std::move(second);
    }
    const std::vector<sim::Task> resumed = first->finish();
    CHECK(first->engine.save() == plain->engine.save());
    for (std::int32_t id = 0; id <= 12; ++id) {
      CAPTURE(id);
      sim::Saver one;
      sim::Saver two;
      plain->engine.node(id).visit(one);
      first->engine.node(id).visit(two);
      CHECK(one.data() == two.data());
    }
    REQUIRE(want.size() == 60);
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(want[i].end_fs == same[i].end_fs);
      CHECK(want[i].end_fs == resumed[i].end_fs);
    }
  }
}
