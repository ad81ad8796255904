#include "noc/sessions.hpp"

#include <algorithm>
#include <utility>

#include "noc/bits.hpp"

namespace cosim::noc {

namespace {

// A fault point breaks the law after this many good events.
constexpr std::int64_t kFaultPeriod = 5;

}  // namespace

Sessions::Sessions(const NetworkSpec& spec)
    : spec_(spec.sessions),
      trees_(spec),
      sources_(spec.terminals.size()),
      owner_(trees_.resource_count(), -1),
      claimed_(trees_.resource_count()),
      due_(trees_.links()),
      clear_(trees_.links()),
      fault_(sim::fault_from_environment()),
      fault_countdown_(kFaultPeriod),
      link_flits_(trees_.links()),
      link_cycles_(trees_.links()) {}

void Sessions::offer(const PacketIn& packet) {
  std::uint32_t slot = free_packet_;
  if (slot != kNone) {
    free_packet_ = packets_[slot].next;
  } else {
    slot = static_cast<std::uint32_t>(packets_.size());
    packets_.emplace_back();
  }
  packets_[slot] = {packet.create_cycle, packet.tag,           static_cast<std::uint32_t>(packet.group),
                    packet.size_flits,   packet.message_class, kNone};
  ++asked_;
  ++packets_left_;
  Source& source = sources_[as_size(packet.source)];
  if (source.first != kNone) {
    packets_[source.last].next = slot;
    source.last = slot;
    return;
  }
  source.first = source.last = slot;
  if (source.session < 0) {
    pending_.insert(std::lower_bound(pending_.begin(), pending_.end(), packet.source), packet.source);
    next_ = std::min(next_, packet.create_cycle);
    return;
  }
  Session& s = sessions_[as_size(source.session)];
  if (s.phase != kStreaming) return;
  s.at = std::min(s.at, std::max(packet.create_cycle, s.busy_until));
  next_ = std::min(next_, s.at);
}

// The first packet of a source goes; the one behind it is the first from `since` on.
void Sessions::pop(Source& source, std::int64_t since) {
  const std::uint32_t slot = source.first;
  source.first = packets_[slot].next;
  if (source.first == kNone) source.last = kNone;
  source.first_since = since;
  packets_[slot].next = std::exchange(free_packet_, slot);
  --packets_left_;
}

bool Sessions::step(std::int64_t cycle, std::vector<Arrival>& arrivals, std::vector<Departure>& departures,
                    std::vector<SessionWait>& waits, std::vector<Refusal>& refusals) {
  do {
    ask(cycle);
    grant(cycle);
  } while (refuse(cycle, refusals));
  for (const std::int32_t number : running_) {
    Session& s = sessions_[as_size(number)];
    if (s.phase == kDraining) drain(s, cycle);
    if (s.phase == kStreaming && s.at == cycle) stream(s, cycle, arrivals, departures, waits);
  }
  bool returned = false;
  for (std::size_t i = 0; i < running_.size();) {
    const Session& s = sessions_[as_size(running_[i])];
    if (s.phase != kReturning || s.at != cycle) {
      ++i;
      continue;
    }
    give_back(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    returned = true;
  }
  next_ = returned && !order_.empty() ? cycle + 1 : kNoEvent;
  for (const std::int32_t number : running_) next_ = std::min(next_, sessions_[as_size(number)].at);
  for (const std::int32_t node : pending_) {
    next_ = std::min(next_, std::max(packets_[sources_[as_size(node)].first].create, cycle + 1));
  }
  return returned;
}

// Sources whose first packet is due ask for its links.
void Sessions::ask(std::int64_t cycle) {
  for (std::size_t i = 0; i < pending_.size();) {
    Source& source = sources_[as_size(pending_[i])];
    const Packet& packet = packets_[source.first];
    if (packet.create > cycle) {
      ++i;
      continue;
    }
    std::int32_t number = static_cast<std::int32_t>(sessions_.size());
    if (free_.empty()) {
      sessions_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    Session& s = sessions_[as_size(number)];
    s = {};
    s.record.source = pending_[i];
    s.record.tree = packet.tree;
    s.record.ask_cycle = cycle;
    source.session = number;
    order_.push_back(number);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Sessions::grant(std::int64_t cycle) {
  if (order_.empty()) return;
  std::fill(claimed_.begin(), claimed_.end(), std::uint8_t{0});
  std::size_t left = 0;
  for (const std::int32_t number : order_) {
    Session& s = sessions_[as_size(number)];
    const SessionTree& tree = trees_.at(s.record.tree);
    bool free = true;
    [[maybe_unused]] bool owned = false;
    for (std::uint32_t i = 0; i < tree.resources; ++i) {
      const std::uint32_t resource = trees_.resource(tree.first_resource + i);
      owned = owned || owner_[resource] >= 0;
      free = free && owner_[resource] < 0 && claimed_[resource] == 0;
    }
    if constexpr (sim::kFaultsCompiled) {
      free = free || (fault_ == sim::Fault::share_link && owned && --fault_countdown_ == 0);
    }
    for (std::uint32_t i = 0; i < tree.resources; ++i) {
      const std::uint32_t resource = trees_.resource(tree.first_resource + i);
      if (free) {
        if (owner_[resource] >= 0) ++shared_;
        owner_[resource] = number;
      } else {
        claimed_[resource] = 1;
      }
    }
    if (!free) {
      order_[left++] = number;
      continue;
    }
    s.phase = kDraining;
    s.record.grant_cycle = cycle;
    running_.push_back(number);
  }
  order_.resize(left);
}

// More sessions wait than may: the ones that asked last are refused. Returns whether there were any.
bool Sessions::refuse(std::int64_t cycle, std::vector<Refusal>& refusals) {
  if (spec_.max_waiting < 0 || order_.size() <= as_size(spec_.max_waiting)) return false;
  while (order_.size() > as_size(spec_.max_waiting)) {
    const std::int32_t number = order_.back();
    order_.pop_back();
    free_.push_back(number);
    const std::int32_t node = sessions_[as_size(number)].record.source;
    Source& source = sources_[as_size(node)];
    source.session = -1;
    refusals.push_back({packets_[source.first].tag, cycle});
    ++refused_;
    pop(source, cycle);
    if (source.first != kNone) pending_.insert(std::lower_bound(pending_.begin(), pending_.end(), node), node);
  }
  return true;
}

void Sessions::passed(std::size_t link, std::int64_t now, std::int64_t clear) {
  clear_[link] = std::max(clear_[link], clear);
  if (--due_[link] == 0 && owner_[link] >= 0) next_ = std::min(next_, now + 1);
}

// Detaches the links when no packet has yet to pass them.
void Sessions::drain(Session& s, std::int64_t cycle) {
  const SessionTree& tree = trees_.at(s.record.tree);
  std::int64_t detach = cycle;
  for (std::uint32_t i = 0; i < tree.links; ++i) {
    const std::uint32_t link = trees_.resource(tree.first_resource + i);
    if (due_[link] != 0) return;
    detach = std::max(detach, clear_[link]);
  }
  s.phase = kStreaming;
  s.record.detach_cycle = detach;
  s.at = s.busy_until = detach + spec_.setup_cycles;
}

// The source is free: the next packet of the set leaves, the session waits for one, or it ends.
void Sessions::stream(Session& s, std::int64_t cycle, std::vector<Arrival>& arrivals,
                      std::vector<Departure>& departures, std::vector<SessionWait>& waits) {
  const SessionTree& tree = trees_.at(s.record.tree);
  Source& source = sources_[as_size(tree.source)];
  const std::int64_t last_return = s.record.detach_cycle + spec_.max_session_cycles;
  const bool same = source.first != kNone && packets_[source.first].tree == s.record.tree;
  if (same && packets_[source.first].create <= cycle) {
    const Packet& packet = packets_[source.first];
    const std::int64_t tail = cycle + packet.size - 1;
    if (tail + tree.reach_cycles + spec_.teardown_cycles <= last_return) {
      const std::int64_t waited = cycle - std::max(packet.create, source.first_since);
      if (waited > 0) waits.push_back({packet.tag, waited});
      departures.push_back({packet.tag, tail});
      for (std::uint32_t i = 0; i < tree.stops; ++i) {
        const SessionStop& stop = trees_.stop(tree.first_stop + i);
        const std::int64_t delay = std::int64_t{stop.hops} * spec_.segment_delay + stop.link_cycles + kTerminalCycles;
        if constexpr (sim::kFaultsCompiled) {
          if (fault_ == sim::Fault::lose_flit && --fault_countdown_ == 0) continue;
        }
        deliveries_ += packet.size;
        arrivals.push_back({packet.tag, tail + delay, packet.create, cycle, packet.size * delay, tree.source, stop.dest,
                            packet.size, packet.message_class, stop.hops, stop.link_cycles});
      }
      for (std::uint32_t i = 0; i < tree.links; ++i) {
        link_flits_[trees_.resource(tree.first_resource + i)] += packet.size;
      }
      flit_hops_ += std::int64_t{packet.size} * (tree.links + tree.stops);
      ++s.record.packets;
      s.record.flits += packet.size;
      ++sent_;
      sent_flits_ += packet.size;
      due_deliveries_ += std::int64_t{packet.size} * tree.stops;
      s.busy_until = tail + 1;
      s.last_read = tail + tree.reach_cycles;
      s.at = s.busy_until;
      pop(source, s.busy_until);
      return;
    }
  } else if (same || source.first == kNone) {
    const std::int64_t deadline = std::min(s.busy_until + spec_.idle_cycles, last_return - spec_.teardown_cycles);
    if (cycle < deadline) {
      s.at = same ? std::min(deadline, packets_[source.first].create) : deadline;
      return;
    }
  }
  s.phase = kReturning;
  s.at = s.record.return_cycle = std::max(s.last_read, cycle) + spec_.teardown_cycles;
}

void Sessions::give_back(std::int32_t number) {
  Session& s = sessions_[as_size(number)];
  const SessionTree& tree = trees_.at(s.record.tree);
  for (std::uint32_t i = 0; i < tree.resources; ++i) {
    const std::uint32_t resource = trees_.resource(tree.first_resource + i);
    owner_[resource] = -1;
    if (i < tree.links) link_cycles_[resource] += s.record.return_cycle - s.record.detach_cycle;
  }
  records_.push_back(s.record);
  Source& source = sources_[as_size(tree.source)];
  source.session = -1;
  if (source.first != kNone) {
    pending_.insert(std::lower_bound(pending_.begin(), pending_.end(), tree.source), tree.source);
  }
  free_.push_back(number);
}

std::int64_t Sessions::cancel_queued() {
  for (const std::int32_t number : order_) {
    sources_[as_size(sessions_[as_size(number)].record.source)].session = -1;
    free_.push_back(number);
  }
  order_.clear();
  pending_.clear();
  std::int64_t dropped = 0;
  for (Source& source : sources_) {
    for (; source.first != kNone; ++dropped) pop(source, source.first_since);
  }
  cancelled_ += dropped;
  return dropped;
}

std::string Sessions::verify(bool network_empty) const {
  if (shared_ != 0) return "a link or unit was given to two sessions at once";
  if (asked_ != sent_ + refused_ + cancelled_ + packets_left_) {
    return "session packets are lost: " + std::to_string(asked_) + " offered, " + std::to_string(sent_) + " sent, " +
           std::to_string(refused_) + " refused, " + std::to_string(cancelled_) + " cancelled, " +
           std::to_string(packets_left_) + " left";
  }
  if (deliveries_ != due_deliveries_) {
    return "flits of sessions are lost: " + std::to_string(sent_flits_) + " sent, " + std::to_string(due_deliveries_) +
           " due at their nodes, " + std::to_string(deliveries_) + " delivered";
  }
  if (!network_empty || !idle()) return {};
  for (std::size_t r = 0; r < owner_.size(); ++r) {
    if (owner_[r] >= 0) return "a session kept its links in an idle network";
  }
  for (const std::int32_t due : due_) {
    if (due != 0) return "a session would wait for packets that are not there";
  }
  return {};
}

std::string Sessions::waiting() const {
  std::string text;
  for (const std::int32_t number : running_) {
    const Session& s = sessions_[as_size(number)];
    if (s.phase != kDraining) continue;
    text += "\n  the session of node " + std::to_string(s.record.source) + " waits for its links to drain";
  }
  for (const std::int32_t number : order_) {
    text += "\n  the session of node " + std::to_string(sessions_[as_size(number)].record.source) +
            " waits for links of other sessions";
  }
  return text;
}

std::size_t Sessions::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return sizeof(*this) + trees_.core_bytes() + bytes(packets_) + bytes(sources_) + bytes(pending_) + bytes(sessions_) +
         bytes(free_) + bytes(order_) + bytes(running_) + bytes(owner_) + bytes(claimed_) + bytes(due_) +
         bytes(clear_) + bytes(link_flits_) + bytes(link_cycles_) + bytes(records_);
}

void Sessions::visit(sim::Visitor& v) {
  using sim::Kind;
  trees_.visit(v);
  v.vector(Kind::stamp, packets_);
  v.value(Kind::state, free_packet_);
  v.vector(Kind::stamp, sources_);
  v.vector(Kind::state, pending_);
  v.vector(Kind::stamp, sessions_);
  v.vector(Kind::state, free_);
  v.vector(Kind::state, order_);
  v.vector(Kind::state, running_);
  v.vector(Kind::state, owner_);
  v.vector(Kind::state, due_);
  v.vector(Kind::stamp, clear_);
  v.value(Kind::state, fault_countdown_);
  v.value(Kind::stamp, next_);
  v.value(Kind::state, packets_left_);
  for (auto* counter :
       {&asked_, &sent_, &refused_, &cancelled_, &sent_flits_, &due_deliveries_, &deliveries_, &flit_hops_, &shared_}) {
    v.value(Kind::counter, *counter);
  }
  v.vector(Kind::counter, link_flits_);
  v.vector(Kind::counter, link_cycles_);
  v.vector(Kind::stamp, records_);
}

}  // namespace cosim::noc
