// One direction of a gateway: an endpoint of two networks that passes packets from the first on to the second.
//
// Per message class it has a buffer, counted in bytes of the first network's flits. A packet enters the first network
// only when the gateway has reserved room for all of it (asks are served in order, per class), so reading it never
// blocks; its room is free again when its tail has left on the other side. The packet is cut through: its next flit in
// the other width may leave as soon as the payload for it has been read. Classes share nothing here. Everything that
// crosses between the clocks waits for the receiver's first edge strictly after it plus the synchroniser's cycles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/faults.hpp"
#include "sim/node.hpp"

namespace cosim::endpoint {

// When a value committed at `t` must be stamped so that a domain sees it `synchroniser_cycles` after the edge at which
// it would see it without a synchroniser.
[[nodiscard]] inline sim::Fs synchronised(const sim::Clock& receiver, std::int32_t synchroniser_cycles, sim::Fs t) {
  if (synchroniser_cycles == 0) return t;
  return receiver.edge_fs(receiver.edge_after(t) + synchroniser_cycles - 1);
}

struct GatewayConfig {
  std::string name;                 // of reports
  sim::Clock clock{1'000'000'000};  // of the network that packets go on to, and of this node
  sim::Clock from_clock{1'000'000'000};
  std::int32_t from_network = -1;
  std::int32_t to_network = -1;
  std::int64_t from_flit_bytes = 0;
  std::int64_t from_header_bytes = 0;
  std::int64_t to_flit_bytes = 0;
  std::int64_t to_header_bytes = 0;
  std::int32_t synchroniser_cycles = 0;    // of the receiver's clock, either way
  std::int32_t grant_latency_cycles = 1;   // of this clock, from the decision to the grant's leaving
  std::vector<std::int64_t> buffer_bytes;  // per message class
};

class Gateway final : public sim::ClockedNode {
 public:
  // Throws std::invalid_argument when a size is not positive.
  explicit Gateway(GatewayConfig config);

  [[nodiscard]] sim::Fs next_event() const override { return inbox_.next(); }
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void canonical(sim::Canonical& c) override;
  [[nodiscard]] std::string waiting_for() const override;

  // Per message class.
  [[nodiscard]] const std::vector<std::int64_t>& granted_bytes() const { return granted_bytes_; }
  [[nodiscard]] const std::vector<std::int64_t>& arrived_bytes() const { return arrived_bytes_; }
  [[nodiscard]] const std::vector<std::int64_t>& forwarded_bytes() const { return forwarded_bytes_; }
  [[nodiscard]] const std::vector<std::int64_t>& most_used_bytes() const { return most_used_bytes_; }
  [[nodiscard]] std::int64_t open_messages() const { return open_passages_; }
  // With no message open: granted = arrived = forwarded and all room free again; empty when it holds.
  [[nodiscard]] std::string conservation_error() const;

 private:
  struct Passage {                // a message that comes this way
    std::int64_t bytes_left = 0;  // not yet sent on
    std::int64_t payload = 0;     // of a full packet
    std::int32_t record = -1;     // the first network's
    std::int32_t next_free = -1;
    std::uint8_t message_class = 0;
    std::uint8_t reserved[7] = {};
  };
  struct Ask {
    std::int64_t bytes = 0;  // still to be granted
    std::int32_t passage = -1;
    std::int32_t packet = -1;  // the first network's record; -1: any of the message
  };
  struct Piece {  // a packet with room here
    std::int64_t bytes = 0;
    std::int64_t arrived = 0;
    std::int32_t passage = -1;
    std::int32_t flits = 0;     // in the other width
    std::int32_t supplied = 0;  // of them
    std::int32_t next_free = -1;
  };
  struct Line {             // of one class
    std::vector<Ask> asks;  // FIFO from `first`
    std::uint64_t first = 0;
    std::int64_t room = 0;
  };
  void open(const sim::Message& m, sim::Fs t);
  void take_flits(const sim::Message& m, sim::Fs t);
  void sent(std::int32_t piece);
  void grant(std::size_t message_class, std::int64_t n);
  [[nodiscard]] std::int64_t room_for(std::int64_t payload) const;

  GatewayConfig config_;
  sim::Fault fault_;
  std::int64_t fault_countdown_ = 3;
  std::vector<Passage> passages_;
  std::int32_t free_passage_ = -1;
  std::vector<std::int32_t> passage_of_record_;  // by the first network's record
  std::vector<Piece> pieces_;
  std::int32_t free_piece_ = -1;
  std::vector<Line> lines_;
  std::int64_t open_passages_ = 0;
  std::vector<std::int64_t> granted_bytes_;
  std::vector<std::int64_t> arrived_bytes_;
  std::vector<std::int64_t> forwarded_bytes_;
  std::vector<std::int64_t> most_used_bytes_;
};

}  // namespace cosim::endpoint
