#include "endpoint/gateway.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/canonical.hpp"

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

Gateway::Gateway(GatewayConfig config)
    : ClockedNode(config.clock), config_(std::move(config)), fault_(sim::fault_from_environment()) {
  if (config_.from_flit_bytes <= 0 || config_.to_flit_bytes <= 0 || config_.from_header_bytes < 0 ||
      config_.to_header_bytes < 0 || config_.synchroniser_cycles < 0 || config_.grant_latency_cycles < 0) {
    throw std::invalid_argument("gateway " + config_.name +
                                ": flits must be positive, headers, latency and synchroniser not negative");
  }
  for (const std::int64_t bytes : config_.buffer_bytes) {
    if (bytes <= 0) throw std::invalid_argument("gateway " + config_.name + ": a class needs a buffer");
    Line line;
    line.room = bytes;
    lines_.push_back(line);
  }
  for (auto* counters : {&granted_bytes_, &arrived_bytes_, &forwarded_bytes_, &most_used_bytes_}) {
    counters->resize(lines_.size());
  }
}

std::int64_t Gateway::room_for(std::int64_t payload) const {
  const std::int64_t flit = config_.from_flit_bytes;
  return (payload + config_.from_header_bytes + flit - 1) / flit * flit;
}

void Gateway::open(const Message& m, Fs t) {
  std::int32_t slot = free_passage_;
  if (slot >= 0) {
    free_passage_ = passages_[static_cast<std::size_t>(slot)].next_free;
  } else {
    slot = static_cast<std::int32_t>(passages_.size());
    passages_.emplace_back();
  }
  passages_[static_cast<std::size_t>(slot)] = {m.bytes, m.address,       static_cast<std::int32_t>(m.a),
                                               -1,      m.message_class, {}};
  ++open_passages_;
  const auto record = static_cast<std::size_t>(m.a);
  if (passage_of_record_.size() <= record) passage_of_record_.resize(record + 1, -1);
  passage_of_record_[record] = slot;
  if ((m.flags & sim::kAskForAll) != 0) lines_[m.message_class].asks.push_back({m.bytes, slot, -1});
  Message onward = m;
  onward.a = slot;
  onward.flags = m.flags & sim::kDeliverToGraph;
  post(config_.to_network, onward, t);
}

void Gateway::take_flits(const Message& m, Fs t) {
  Piece& piece = pieces_[static_cast<std::size_t>(m.a)];
  const std::uint8_t message_class = passages_[static_cast<std::size_t>(piece.passage)].message_class;
  arrived_bytes_[message_class] += m.bytes - piece.arrived;
  piece.arrived = m.bytes;
  const std::int64_t whole = (piece.arrived + config_.to_header_bytes) / config_.to_flit_bytes;
  const std::int32_t there = piece.arrived == piece.bytes
                                 ? piece.flits
                                 : static_cast<std::int32_t>(std::min<std::int64_t>(whole, piece.flits - 1));
  if (there <= piece.supplied) return;
  Message out;
  out.message_class = message_class;
  out.b = m.a;
  if (piece.supplied == 0) {
    out.kind = MessageKind::packet;
    out.a = piece.passage;
    out.c = m.b;
    out.address = m.c;
    out.bytes = piece.bytes;
    post(config_.to_network, out, t);
  }
  out.kind = MessageKind::supply;
  out.bytes = there - piece.supplied;
  piece.supplied = there;
  post(config_.to_network, out, t);
}

void Gateway::sent(std::int32_t slot) {
  Piece& piece = pieces_[static_cast<std::size_t>(slot)];
  Passage& passage = passages_[static_cast<std::size_t>(piece.passage)];
  lines_[passage.message_class].room += room_for(piece.bytes);
  forwarded_bytes_[passage.message_class] += piece.bytes;
  passage.bytes_left -= piece.bytes;
  if (passage.bytes_left == 0) {
    passage.next_free = free_passage_;
    free_passage_ = piece.passage;
    --open_passages_;
  }
  piece = {};
  piece.next_free = free_piece_;
  free_piece_ = slot;
}

void Gateway::grant(std::size_t message_class, std::int64_t n) {
  Line& line = lines_[message_class];
  while (line.first < line.asks.size()) {
    Ask& ask = line.asks[line.first];
    const Passage& passage = passages_[static_cast<std::size_t>(ask.passage)];
    const std::int64_t bytes = std::min(passage.payload, ask.bytes);
    const std::int64_t needed = room_for(bytes);
    if (needed > line.room) break;
    std::int32_t slot = free_piece_;
    if (slot >= 0) {
      free_piece_ = pieces_[static_cast<std::size_t>(slot)].next_free;
    } else {
      slot = static_cast<std::int32_t>(pieces_.size());
      pieces_.emplace_back();
    }
    Piece& piece = pieces_[static_cast<std::size_t>(slot)];
    piece = {};
    piece.bytes = bytes;
    piece.passage = ask.passage;
    piece.flits = static_cast<std::int32_t>((bytes + config_.to_header_bytes + config_.to_flit_bytes - 1) /
                                            config_.to_flit_bytes);
    line.room -= needed;
    const std::int64_t used = config_.buffer_bytes[message_class] - line.room;
    most_used_bytes_[message_class] = std::max(most_used_bytes_[message_class], used);
    granted_bytes_[message_class] += bytes;
    bool lost = false;
    if constexpr (sim::kFaultsCompiled) lost = fault_ == sim::Fault::lose_room && --fault_countdown_ == 0;
    if (!lost) {
      Message m;
      m.kind = MessageKind::room;
      m.message_class = passage.message_class;
      m.a = passage.record;
      m.b = slot;
      m.c = ask.packet;
      m.bytes = bytes;
      const Fs left = clock_.edge_fs(n + config_.grant_latency_cycles);
      post(config_.from_network, m, synchronised(config_.from_clock, config_.synchroniser_cycles, left));
    }
    ask.bytes -= bytes;
    if (ask.bytes == 0) ++line.first;
  }
  if (line.first == line.asks.size()) {
    line.asks.clear();
    line.first = 0;
  } else if (line.first > 1024) {
    line.asks.erase(line.asks.begin(), line.asks.begin() + static_cast<std::ptrdiff_t>(line.first));
    line.first = 0;
  }
}

void Gateway::evaluate(Fs t) {
  const std::int64_t n = clock_.edge_at_or_before(t);
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    switch (m.kind) {
      case MessageKind::open:
        open(m, t);
        break;
      case MessageKind::ask:
        lines_[m.message_class].asks.push_back(
            {m.bytes, passage_of_record_[static_cast<std::size_t>(m.a)], static_cast<std::int32_t>(m.b)});
        break;
      case MessageKind::flits:
        take_flits(m, t);
        break;
      case MessageKind::sent:
        sent(static_cast<std::int32_t>(m.c));
        break;
      default:
        throw std::logic_error("a gateway cannot read this message");
    }
  }
  for (std::size_t c = 0; c < lines_.size(); ++c) grant(c, n);
}

void Gateway::visit(sim::Visitor& v) {
  using sim::Kind;
  visit_mail(v);
  v.value(Kind::state, fault_countdown_);
  v.vector(Kind::state, passages_);
  v.value(Kind::state, free_passage_);
  v.vector(Kind::state, passage_of_record_);
  v.vector(Kind::state, pieces_);
  v.value(Kind::state, free_piece_);
  for (Line& line : lines_) {
    v.vector(Kind::state, line.asks);
    v.value(Kind::state, line.first);
    v.value(Kind::state, line.room);
  }
  v.value(Kind::state, open_passages_);
  for (auto* counters : {&granted_bytes_, &arrived_bytes_, &forwarded_bytes_, &most_used_bytes_}) {
    v.vector(Kind::counter, *counters);
  }
}

void Gateway::canonical(sim::Canonical& c) { c.refuse("the system has several levels"); }

std::string Gateway::waiting_for() const {
  std::string text;
  for (std::size_t c = 0; c < lines_.size(); ++c) {
    const Line& line = lines_[c];
    const std::int64_t used = config_.buffer_bytes[c] - line.room;
    const std::size_t asks = line.asks.size() - static_cast<std::size_t>(line.first);
    if (used == 0 && asks == 0) continue;
    text += "\n  gateway " + config_.name + " (node " + std::to_string(id()) + "), class " + std::to_string(c) + ": " +
            std::to_string(used) + " of " + std::to_string(config_.buffer_bytes[c]) + " B taken, " +
            std::to_string(granted_bytes_[c] - arrived_bytes_[c]) + " B granted that have not arrived, " +
            std::to_string(arrived_bytes_[c] - forwarded_bytes_[c]) + " B that have not left, " + std::to_string(asks) +
            " messages or packets wait for room";
  }
  return text;
}

std::string Gateway::conservation_error() const {
  if (open_passages_ != 0) return {};
  for (std::size_t c = 0; c < lines_.size(); ++c) {
    const std::string name = "class " + std::to_string(c) + ": ";
    if (granted_bytes_[c] != arrived_bytes_[c] || arrived_bytes_[c] != forwarded_bytes_[c]) {
      return name + std::to_string(granted_bytes_[c]) + " B granted, " + std::to_string(arrived_bytes_[c]) +
             " B arrived, " + std::to_string(forwarded_bytes_[c]) + " B sent on";
    }
    if (lines_[c].room != config_.buffer_bytes[c]) {
      return name + std::to_string(lines_[c].room) + " of " + std::to_string(config_.buffer_bytes[c]) + " B free";
    }
  }
  return {};
}

}  // namespace cosim::endpoint
