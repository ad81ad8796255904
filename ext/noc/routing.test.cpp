#include "noc/routing.hpp"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "noc/booksim_random.hpp"
#include "noc/flit_network.hpp"
#include "noc/routing_builtin.hpp"
#include "noc/topology.hpp"
#include "sim/random.hpp"

namespace {

using namespace cosim;
using noc::Candidate;
using noc::RouteRequest;
using noc::RouterView;
using noc::RoutingTraits;

constexpr std::array<std::int32_t, 2> kShape = {4, 4};

// A routing written as one function, for tests.
class Written final : public noc::RoutingFunction {
 public:
  using Function = std::int32_t (*)(RouteRequest&, const RouterView&, Candidate*);
  Written(RoutingTraits traits, Function function) : traits_(traits), function_(function) {}
  [[nodiscard]] RoutingTraits traits() const override { return traits_; }
  std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* out, std::uint32_t) override {
    return function_(request, view, out);
  }

 private:
  RoutingTraits traits_;
  Function function_;
};

class WrittenFactory final : public noc::RoutingFactory {
 public:
  WrittenFactory(RoutingTraits traits, Written::Function function) : traits_(traits), function_(function) {}
  [[nodiscard]] std::string name() const override { return "written"; }
  [[nodiscard]] std::unique_ptr<noc::RoutingFunction> create(const noc::NetworkSpec&) const override {
    return std::make_unique<Written>(traits_, function_);
  }

 private:
  RoutingTraits traits_;
  Written::Function function_;
};

// The ways of a network of an oblivious kind, asked head by head.
class AsFunction final : public noc::RoutingFactory {
 public:
  explicit AsFunction(const noc::NetworkSpec& spec) : spec_(spec) {}
  [[nodiscard]] std::string name() const override { return "ways"; }
  [[nodiscard]] std::unique_ptr<noc::RoutingFunction> create(const noc::NetworkSpec&) const override {
    return noc::make_builtin(spec_);
  }

 private:
  noc::NetworkSpec spec_;
};

// Productive ports of a 4x4 mesh, dimension 0 first; 4 at the destination.
std::vector<std::uint8_t> productive(const RouteRequest& r) {
  std::vector<std::uint8_t> ports;
  for (std::uint8_t d = 0; d < 2; ++d) {
    const std::uint32_t here = d == 0 ? r.router % 4 : r.router / 4;
    const std::uint32_t there = d == 0 ? r.dest % 4 : r.dest / 4;
    if (here != there) ports.push_back(static_cast<std::uint8_t>(2 * d + (there < here ? 1 : 0)));
  }
  if (ports.empty()) ports.push_back(4);
  return ports;
}

std::int32_t dimension_order(RouteRequest& r, const RouterView&, Candidate* out) {
  out[0] = {~0U, productive(r)[0], 0, 0};
  return 1;
}

// Every productive port on VCs 1.., dimension order on VC 0 as the last resort; a packet on VC 0 stays there.
std::int32_t with_escape(RouteRequest& r, const RouterView& view, Candidate* out) {
  const std::vector<std::uint8_t> ports = productive(r);
  if (ports[0] == 4) {
    out[0] = {~0U, 4, 0, 0};
    return 1;
  }
  std::int32_t n = 0;
  if (r.from_terminal || r.in_vc != 0) {
    for (const std::uint8_t port : ports) {
      if (view.link_up(port)) out[n++] = {~1U, port, 0, 0};
    }
  }
  out[n++] = {1U, ports[0], 1, 0};
  return n;
}

// Needs the draws: productive ports in random order.
std::int32_t random_first(RouteRequest& r, const RouterView&, Candidate* out) {
  const std::vector<std::uint8_t> ports = productive(r);
  const std::uint32_t first = ports.size() == 2 ? r.draws->below(2) : 0;
  out[0] = {~0U, ports[first], 0, 0};
  return 1;
}

std::int32_t never(RouteRequest&, const RouterView&, Candidate*) { return 0; }
std::int32_t wrong_port(RouteRequest&, const RouterView&, Candidate* out) {
  out[0] = {~0U, 9, 0, 0};
  return 1;
}
std::int32_t fails(RouteRequest&, const RouterView&, Candidate*) { return -1; }

noc::NetworkSpec mesh(bool compat = false) {
  noc::NetworkSpec spec;
  spec.compat_booksim2 = compat;
  const std::array<std::int32_t, 2> latency = {1, 1};
  noc::build_mesh(spec, kShape, 1, latency, 8);
  return spec;
}

noc::NetworkSpec mesh(RoutingTraits traits, Written::Function function, bool compat = false) {
  noc::NetworkSpec spec = mesh(compat);
  spec.routing.kind = noc::RoutingKind::plugin;
  spec.routing.plugin = std::make_shared<WrittenFactory>(traits, function);
  spec.routes = {};
  return spec;
}

void offer_random(noc::FlitNetwork& network, int packets) {
  sim::RandomStream random(7, 0);
  const std::uint64_t nodes = network.spec().terminals.size();
  const auto classes = static_cast<int>(network.spec().classes.size());
  for (int i = 0; i < packets; ++i) {
    noc::PacketIn packet;
    packet.create_cycle = i / 8;
    packet.source = static_cast<std::int32_t>(random.below(nodes));
    packet.dest = static_cast<std::int32_t>(random.below(nodes));
    if (classes != 0) packet.message_class = i % classes;
    packet.size_flits = 1 + static_cast<std::int32_t>(random.below(5));
    packet.tag = static_cast<std::uint64_t>(i);
    network.offer(packet);
  }
}

using Row = std::array<std::int64_t, 4>;

void advance(noc::FlitNetwork& network, std::int64_t before) {
  for (std::int64_t next = network.next_event(); next < before; next = network.next_event()) network.step(next);
}

std::vector<Row> arrivals(noc::FlitNetwork& network) {
  std::vector<Row> rows;
  for (const noc::Arrival& a : network.arrivals()) {
    rows.push_back({static_cast<std::int64_t>(a.tag), a.inject_cycle, a.cycle, a.hops});
  }
  return rows;
}

std::vector<Row> run(const noc::NetworkSpec& spec, int packets = 600) {
  noc::FlitNetwork network(spec);
  offer_random(network, packets);
  advance(network, noc::kNoEvent);
  CHECK(network.failure() == "");
  CHECK(network.idle());
  CHECK(network.verify_conservation() == "");
  return arrivals(network);
}

}  // namespace

TEST_CASE("BookSim2's generator is Knuth's: the check value of his program") {
  noc::BooksimRandom random(310952);
  for (int i = 0; i < 2009 * 100; ++i) random.next();
  CHECK(random.next() == 995235265);
}

TEST_CASE("dimension order as a function is the table, cycle by cycle, however its heads are asked") {
  for (const bool compat : {false, true}) {
    std::vector<Row> table = run(mesh(compat));
    for (const RoutingTraits traits : {RoutingTraits{false, false, true}, RoutingTraits{false, true, true},
                                       RoutingTraits{true, true, true}, RoutingTraits{true, false, false}}) {
      CHECK(run(mesh(traits, dimension_order, compat)) == table);
    }
  }
}

TEST_CASE("ways that are looked up in the cycle are those of the function, draw by draw") {
  const std::array<std::int32_t, 2> latency = {1, 1};
  const auto ring = [&](noc::RoutingKind kind, std::int32_t side) {
    noc::NetworkSpec spec;
    const std::array<std::int32_t, 2> shape = {side, side};
    noc::build_grid(spec, shape, true, 1, latency, 8);
    spec.routing.kind = kind;
    return spec;
  };
  noc::NetworkSpec tree;
  noc::build_fat_tree(tree, 4, 2, {1, 8});
  tree.routing.kind = noc::RoutingKind::nca;
  noc::NetworkSpec slow = ring(noc::RoutingKind::dateline, 4);  // no plain shape
  slow.routing_delay = 2;
  noc::NetworkSpec classes = ring(noc::RoutingKind::dateline, 4);
  classes.classes = {{3U, 0}, {12U, 0}};
  const noc::NetworkSpec specs[] = {
      ring(noc::RoutingKind::dateline, 4), ring(noc::RoutingKind::dateline_booksim, 4), tree, slow, classes,
      ring(noc::RoutingKind::dateline, 20)};
  for (const noc::NetworkSpec& spec : specs) {
    noc::NetworkSpec function = spec;
    function.routing.kind = noc::RoutingKind::plugin;
    function.routing.plugin = std::make_shared<AsFunction>(spec);
    CHECK(run(spec, 1500) == run(function, 1500));
  }
}

TEST_CASE("a head with several candidates takes what is free, stays minimal and reaches its destination") {
  for (const bool adaptive : {false, true}) {
    const noc::NetworkSpec spec = mesh({adaptive, true, true}, with_escape);
    const std::vector<Row> rows = run(spec);
    REQUIRE(rows.size() == 600);
    CHECK(rows != run(mesh()));
    noc::FlitNetwork network(spec);
    noc::FlitNetwork table(mesh());
    offer_random(network, 600);
    offer_random(table, 600);
    advance(network, noc::kNoEvent);
    advance(table, noc::kNoEvent);
    CHECK(network.flit_hops() == table.flit_hops());
  }
}

TEST_CASE("two of the candidates are both used") {
  noc::FlitNetwork network(mesh({false, true, true}, with_escape));
  for (int i = 0; i < 40; ++i) network.offer({0, 0, 15, 4, 0, static_cast<std::uint64_t>(i)});
  advance(network, noc::kNoEvent);
  const auto outputs = network.connected_outputs();
  const auto counters = network.connected_counters();
  std::int64_t first = 0;
  std::int64_t second = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t v = 0; v < 4; ++v) {
      if (outputs[i] == std::pair{0, 0}) first += counters[4 * i + v].flits;
      if (outputs[i] == std::pair{0, 2}) second += counters[4 * i + v].flits;
    }
  }
  CHECK(first + second == 160);
  CHECK(first > 0);
  CHECK(second > 0);
}

TEST_CASE("a run with routing functions goes on from a saved state as if nothing had happened") {
  for (const bool compat : {false, true}) {
    for (const auto function : {with_escape, random_first}) {
      const noc::NetworkSpec spec = mesh({false, true, false}, function, compat);
      noc::FlitNetwork whole(spec);
      offer_random(whole, 600);
      advance(whole, 60);
      sim::Saver saver;
      whole.visit(saver);
      noc::FlitNetwork restored(spec);
      sim::Loader loader(saver.data());
      restored.visit(loader);
      CHECK(loader.finished());
      advance(whole, noc::kNoEvent);
      advance(restored, noc::kNoEvent);
      CHECK(whole.idle());
      CHECK(arrivals(whole) == arrivals(restored));
      sim::Saver one;
      sim::Saver other;
      whole.visit(one);
      restored.visit(other);
      CHECK(one.data() == other.data());
    }
  }
}

TEST_CASE("draws depend on the seed and nothing else") {
  noc::NetworkSpec spec = mesh({false, false, true}, random_first);
  const std::vector<Row> rows = run(spec, 100);
  CHECK(run(spec, 100) == rows);
  spec.routing.seed = 2;
  CHECK(run(spec, 100) != rows);
}

TEST_CASE("heads held back for ever are a deadlock that names them") {
  for (const bool memoryless : {true, false}) {
    noc::NetworkSpec spec = mesh({false, false, memoryless}, never);
    spec.routing.no_progress_cycles = 5000;
    noc::FlitNetwork network(spec);
    network.offer({10, 3, 5, 2, 0, 0});
    network.offer({2000, 4, 9, 2, 0, 0});
    advance(network, noc::kNoEvent);
    CHECK_FALSE(network.idle());
    CHECK(network.failure() == "");
    CHECK(network.last_cycle() > (memoryless ? 2000 : 7000));
    CHECK(network.last_cycle() < (memoryless ? 2100 : 7100));
    CHECK(network.wait_for_cycle().find("held back by the routing function") != std::string::npos);
  }
}

TEST_CASE("a routing function that lies or fails ends the run with a message") {
  const std::pair<Written::Function, const char*> cases[] = {{wrong_port, "offered port 9; a router has 5 ports"},
                                                             {fails, "it reported an error"}};
  for (const auto& [function, text] : cases) {
    noc::FlitNetwork network(mesh({}, function));
    network.offer({10, 3, 5, 2, 0, 0});
    advance(network, noc::kNoEvent);
    CHECK(network.next_event() == noc::kNoEvent);
    CHECK(network.failure().find(text) != std::string::npos);
    CHECK(network.failure().find("router 3 input port 4") != std::string::npos);
  }
}
