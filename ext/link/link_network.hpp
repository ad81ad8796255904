// The network as reserved links: Algorithm 1 of HDA-MoE.
//
// A message is cut into chunks; each chunk takes its path's directed links one after the other, a link serves one
// chunk at a time, the earliest-ready hop goes first, a hop lasts bytes / bandwidth. No flits, credits, virtual
// channels, router pipelines or endpoint ports. What goes to a group in one of the first `unicast_classes` goes to each
// of its nodes by itself; in the others a chunk takes every link of the ways to its nodes once, and where the ways part
// it goes on in each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/node.hpp"
#include "sim/task_graph.hpp"

namespace cosim::link {

struct LinkNetworkConfig {
  std::int32_t routers = 0;
  std::vector<std::int64_t> link_bytes_per_second;  // per directed link
  std::vector<std::int32_t> link_target;            // router at its end
  std::vector<std::int32_t> next_link;              // [router * routers + destination router], -1 on the diagonal
  std::vector<std::int32_t> endpoint_node;          // node ids of the endpoints ...
  std::vector<std::int32_t> endpoint_router;        // ... and their routers
  std::int32_t chunks_per_message = 20;             // the published code's figure
  std::int64_t hop_latency_fs = 0;                  // the published algorithm has none
  std::int32_t message_classes = 1;
  std::int32_t unicast_classes = 0;
  const sim::TaskGraph* graph = nullptr;  // whose groups are sent to
};

inline constexpr std::size_t kMostMembers = 64;  // of a group

class LinkNetwork final : public sim::Node {
 public:
  // Throws std::invalid_argument when a table's size or an index does not fit.
  LinkNetwork(LinkNetworkConfig config, std::int32_t task_graph);

  [[nodiscard]] sim::Fs next_event() const override;
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void canonical(sim::Canonical& c) override;
  [[nodiscard]] sim::Fs visible_at(sim::Fs committed) const override { return committed + 1; }
  [[nodiscard]] std::string waiting_for() const override;

  [[nodiscard]] const std::vector<std::int64_t>& link_busy_fs() const { return link_busy_fs_; }
  [[nodiscard]] const std::vector<std::int64_t>& link_class_bytes() const { return link_class_bytes_; }
  [[nodiscard]] const std::vector<std::int64_t>& delivered_bytes() const { return delivered_bytes_; }
  [[nodiscard]] std::int64_t hop_events() const { return hop_events_; }
  [[nodiscard]] std::int64_t messages_in_flight() const { return in_flight_; }
  // Injected equals delivered per class; empty when it holds, else what is missing.
  [[nodiscard]] std::string conservation_error() const;

 private:
  struct Transfer {
    std::int64_t tag = 0;    // of `delivered`
    std::int64_t reply = 0;  // of `sent`
    std::int64_t bytes = 0;
    std::int32_t source = 0;
    std::int32_t destination = 0;
    std::int32_t chunks_at_source = 0;
    std::int32_t chunks_left = 0;
    std::int32_t next_free = -1;
    std::uint8_t message_class = 0;
    std::uint8_t flags = 0;
    std::uint16_t reserved = 0;
    std::int32_t group = -1;        // instead of `destination`
    std::int32_t members_left = 0;  // of it, that have not got everything
  };
  static constexpr std::int32_t kLinkFree = -1;
  struct Hop {  // a chunk that is ready to take its next link; with router == kLinkFree: link `transfer` is free again
    sim::Fs time;
    std::uint64_t order;
    std::int64_t bytes;
    std::int32_t transfer;
    std::int32_t router;
    std::uint64_t members = 0;  // of a group that it is for
  };
  struct Waiting {
    Hop hop;
    std::int32_t next;
    std::int32_t reserved;
  };
  struct Queue {  // chunks waiting for a link, in the order of arrival
    std::int32_t first;
    std::int32_t last;
  };
  static bool later(const Hop& x, const Hop& y) { return x.time != y.time ? x.time > y.time : x.order > y.order; }
  void show_transfer(sim::Canonical& c, std::int32_t slot);
  void begin(const sim::Message& m, sim::Fs t);
  void begin_group(const sim::Message& m, std::int32_t slot, sim::Fs t);
  void take(Hop hop);
  void take_to_group(const Hop& hop);
  void leave(const Hop& hop, std::int32_t router);
  void left_source(Transfer& transfer, sim::Fs t);
  void wait(const Hop& hop, std::int32_t link);
  void serve(std::int32_t link, sim::Fs t);
  void cross(Hop hop, std::size_t link);
  void schedule(const Hop& hop);
  void deliver(std::int32_t slot, sim::Fs t);
  [[nodiscard]] std::int32_t router_of(std::int32_t node) const;

  LinkNetworkConfig config_;
  std::int32_t task_graph_;
  std::vector<std::int32_t> router_of_node_;
  std::vector<sim::Fs> free_at_;  // per link
  std::vector<Hop> hops_;         // heap
  std::vector<Waiting> waiting_;
  std::int32_t free_waiting_ = -1;
  std::vector<Queue> queues_;  // per link
  std::vector<Transfer> transfers_;
  std::int32_t free_transfer_ = -1;
  std::vector<std::int32_t> chunks_due_;  // [transfer * kMostMembers + member], of groups
  std::uint64_t order_ = 0;
  std::int64_t in_flight_ = 0;
  std::vector<std::int64_t> link_busy_fs_;
  std::vector<std::int64_t> link_class_bytes_;  // [link * classes + class]
  std::vector<std::int64_t> injected_bytes_;    // per class
  std::vector<std::int64_t> delivered_bytes_;   // per class
  std::int64_t hop_events_ = 0;
};

}  // namespace cosim::link
