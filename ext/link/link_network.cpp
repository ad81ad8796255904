#include "link/link_network.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "sim/canonical.hpp"

namespace cosim::link {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

LinkNetwork::LinkNetwork(LinkNetworkConfig config, std::int32_t task_graph)
    : config_(std::move(config)), task_graph_(task_graph) {
  const auto links = config_.link_target.size();
  const auto routers = static_cast<std::size_t>(config_.routers);
  if (config_.link_bytes_per_second.size() != links || config_.next_link.size() != routers * routers ||
      config_.endpoint_node.size() != config_.endpoint_router.size()) {
    throw std::invalid_argument("the tables of the link network do not fit together");
  }
  if (config_.chunks_per_message <= 0 || config_.hop_latency_fs < 0 || config_.message_classes <= 0) {
    throw std::invalid_argument("chunks and classes must be positive, the hop latency not negative");
  }
  for (const std::int64_t rate : config_.link_bytes_per_second) {
    if (rate <= 0) throw std::invalid_argument("a link needs a positive bandwidth");
  }
  for (std::size_t i = 0; i < config_.endpoint_node.size(); ++i) {
    const auto node = static_cast<std::size_t>(config_.endpoint_node[i]);
    if (router_of_node_.size() <= node) router_of_node_.resize(node + 1, -1);
    router_of_node_[node] = config_.endpoint_router[i];
  }
  free_at_.assign(links, 0);
  queues_.assign(links, {-1, -1});
  link_busy_fs_.assign(links, 0);
  const auto classes = static_cast<std::size_t>(config_.message_classes);
  link_class_bytes_.assign(links * classes, 0);
  injected_bytes_.assign(classes, 0);
  delivered_bytes_.assign(classes, 0);
}

Fs LinkNetwork::next_event() const { return std::min(inbox_.next(), hops_.empty() ? sim::kNever : hops_.front().time); }

std::int32_t LinkNetwork::router_of(std::int32_t node) const { return router_of_node_[static_cast<std::size_t>(node)]; }

void LinkNetwork::begin(const Message& m, Fs t) {
  std::int32_t slot = free_transfer_;
  if (slot >= 0) {
    free_transfer_ = transfers_[static_cast<std::size_t>(slot)].next_free;
  } else {
    slot = static_cast<std::int32_t>(transfers_.size());
    transfers_.emplace_back();
  }
  const std::int64_t chunks = std::min<std::int64_t>(config_.chunks_per_message, m.bytes);
  Transfer& transfer = transfers_[static_cast<std::size_t>(slot)];
  transfer = {m.c,
              m.address,
              m.bytes,
              static_cast<std::int32_t>(m.a),
              static_cast<std::int32_t>(m.b),
              static_cast<std::int32_t>(chunks),
              static_cast<std::int32_t>(chunks),
              -1,
              m.message_class,
              m.flags,
              0,
              -1,
              0};
  ++in_flight_;
  if (m.b <= sim::kGroup) {
    begin_group(m, slot, t);
    return;
  }
  injected_bytes_[m.message_class] += m.bytes;
  const std::int32_t router = router_of(transfer.source);
  for (std::int64_t k = 0; k < chunks; ++k) {
    schedule({t, order_++, (k + 1) * m.bytes / chunks - k * m.bytes / chunks, slot, router});
  }
}

void LinkNetwork::begin_group(const Message& m, std::int32_t slot, Fs t) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(slot)];
  transfer.group = static_cast<std::int32_t>(sim::kGroup - m.b);
  const std::size_t members = config_.graph->group(transfer.group).size();
  if (members > kMostMembers) throw std::logic_error("a group has more than 64 nodes");
  transfer.destination = -1;
  transfer.members_left = static_cast<std::int32_t>(members);
  injected_bytes_[m.message_class] += m.bytes * static_cast<std::int64_t>(members);
  const std::size_t first = static_cast<std::size_t>(slot) * kMostMembers;
  if (chunks_due_.size() < first + kMostMembers) chunks_due_.resize(first + kMostMembers);
  const std::int64_t chunks = transfer.chunks_left;
  for (std::size_t i = 0; i < members; ++i) chunks_due_[first + i] = static_cast<std::int32_t>(chunks);
  const std::uint64_t all = members == kMostMembers ? ~std::uint64_t{0} : (std::uint64_t{1} << members) - 1;
  const std::int32_t router = router_of(transfer.source);
  const auto leave_for = [&](std::uint64_t set) {
    for (std::int64_t k = 0; k < chunks; ++k) {
      schedule({t, order_++, (k + 1) * m.bytes / chunks - k * m.bytes / chunks, slot, router, set});
    }
  };
  if (m.message_class >= config_.unicast_classes) {
    leave_for(all);
    return;
  }
  transfer.chunks_at_source *= static_cast<std::int32_t>(members);
  for (std::size_t i = 0; i < members; ++i) leave_for(std::uint64_t{1} << i);
}

void LinkNetwork::left_source(Transfer& transfer, Fs t) {
  if (--transfer.chunks_at_source > 0 || (transfer.flags & sim::kReplyWhenSent) == 0) return;
  Message m;
  m.kind = MessageKind::sent;
  m.c = transfer.reply;
  post(transfer.source, m, t);
}

// A chunk to a group is at a router: the members here have it, the others' ways part.
void LinkNetwork::take_to_group(const Hop& hop) {
  const auto slot = static_cast<std::size_t>(hop.transfer);
  const auto members = config_.graph->group(transfers_[slot].group);
  const bool at_source = hop.router == router_of(transfers_[slot].source);
  std::uint64_t rest = hop.members;
  for (std::uint64_t each = hop.members; each != 0; each &= each - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(each));
    if (router_of(members[i]) != hop.router) continue;
    rest &= ~(std::uint64_t{1} << i);
    if (--chunks_due_[slot * kMostMembers + i] > 0) continue;
    Transfer& transfer = transfers_[slot];
    const bool last = --transfer.members_left == 0;
    const bool to_graph = (transfer.flags & sim::kDeliverToGraph) != 0;
    Message m;
    m.kind = MessageKind::delivered;
    m.c = transfer.tag;
    m.bytes = transfer.bytes;
    m.message_class = transfer.message_class;
    if (!to_graph || last) post(to_graph ? task_graph_ : members[i], m, hop.time);
    delivered_bytes_[transfer.message_class] += transfer.bytes;
  }
  std::vector<Hop> parts;
  while (rest != 0) {
    const auto next = [&](std::uint64_t set) {
      const std::int32_t to = router_of(members[static_cast<std::size_t>(std::countr_zero(set))]);
      return config_.next_link[static_cast<std::size_t>(hop.router) * static_cast<std::size_t>(config_.routers) +
                               static_cast<std::size_t>(to)];
    };
    Hop part = hop;
    part.members = 0;
    for (std::uint64_t each = rest; each != 0; each &= each - 1) {
      if (next(each) == next(rest)) part.members |= each & (0 - each);
    }
    part.router = next(rest);  // the link, until it leaves
    rest &= ~part.members;
    parts.push_back(part);
  }
  if (at_source) {
    // a chunk has left when every way has taken it
    transfers_[slot].chunks_at_source += static_cast<std::int32_t>(parts.size());
    left_source(transfers_[slot], hop.time);
  }
  for (Hop& part : parts) {
    const std::int32_t link = std::exchange(part.router, hop.router);
    part.order = order_++;
    leave(part, link);
  }
  Transfer& transfer = transfers_[slot];
  if (transfer.members_left > 0) return;
  --in_flight_;
  transfer.next_free = free_transfer_;
  free_transfer_ = hop.transfer;
}

// Over a link at once, or behind those that wait for it.
void LinkNetwork::leave(const Hop& hop, std::int32_t link) {
  const auto at = static_cast<std::size_t>(link);
  if (queues_[at].first >= 0 || free_at_[at] > hop.time) {
    wait(hop, link);
    return;
  }
  cross(hop, at);
}

void LinkNetwork::deliver(std::int32_t slot, Fs t) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(slot)];
  Message m;
  m.kind = MessageKind::delivered;
  m.c = transfer.tag;
  m.bytes = transfer.bytes;
  m.message_class = transfer.message_class;
  post((transfer.flags & sim::kDeliverToGraph) != 0 ? task_graph_ : transfer.destination, m, t);
  delivered_bytes_[transfer.message_class] += transfer.bytes;
  --in_flight_;
  transfer.next_free = free_transfer_;
  free_transfer_ = slot;
}

void LinkNetwork::take(Hop hop) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(hop.transfer)];
  if (transfer.group >= 0) {
    take_to_group(hop);
    return;
  }
  const std::int32_t destination = router_of(transfer.destination);
  const bool leaves_source = hop.router == router_of(transfer.source);
  if (hop.router == destination) {
    if (leaves_source) {
      // same router: nothing to reserve
      if (--transfer.chunks_at_source == 0 && (transfer.flags & sim::kReplyWhenSent) != 0) {
        Message m;
        m.kind = MessageKind::sent;
        m.c = transfer.reply;
        post(transfer.source, m, hop.time);
      }
    }
    if (--transfer.chunks_left == 0) deliver(hop.transfer, hop.time);
    return;
  }
  const auto link = static_cast<std::size_t>(
      config_.next_link[static_cast<std::size_t>(hop.router) * static_cast<std::size_t>(config_.routers) +
                        static_cast<std::size_t>(destination)]);
  Queue& queue = queues_[link];
  if (queue.first >= 0 || free_at_[link] > hop.time) {
    wait(hop, static_cast<std::int32_t>(link));
    return;
  }
  cross(hop, link);
}

void LinkNetwork::wait(const Hop& hop, std::int32_t link) {
  std::int32_t slot = free_waiting_;
  if (slot >= 0) {
    free_waiting_ = waiting_[static_cast<std::size_t>(slot)].next;
  } else {
    slot = static_cast<std::int32_t>(waiting_.size());
    waiting_.emplace_back();
  }
  waiting_[static_cast<std::size_t>(slot)] = {hop, -1, 0};
  Queue& queue = queues_[static_cast<std::size_t>(link)];
  if (queue.first >= 0) {
    waiting_[static_cast<std::size_t>(queue.last)].next = slot;
    queue.last = slot;
    return;
  }
  queue.first = queue.last = slot;
  schedule({free_at_[static_cast<std::size_t>(link)], order_++, 0, link, kLinkFree});
}

void LinkNetwork::serve(std::int32_t link, Fs t) {
  Queue& queue = queues_[static_cast<std::size_t>(link)];
  const std::int32_t slot = queue.first;
  Hop hop = waiting_[static_cast<std::size_t>(slot)].hop;
  queue.first = waiting_[static_cast<std::size_t>(slot)].next;
  waiting_[static_cast<std::size_t>(slot)].next = free_waiting_;
  free_waiting_ = slot;
  hop.time = t;
  cross(hop, static_cast<std::size_t>(link));
  if (queue.first >= 0) schedule({free_at_[static_cast<std::size_t>(link)], order_++, 0, link, kLinkFree});
}

void LinkNetwork::schedule(const Hop& hop) {
  hops_.push_back(hop);
  std::push_heap(hops_.begin(), hops_.end(), later);
}

void LinkNetwork::cross(Hop hop, std::size_t link) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(hop.transfer)];
  const bool leaves_source = hop.router == router_of(transfer.source);
  ++hop_events_;
  const Fs span = sim::transfer_fs(hop.bytes, config_.link_bytes_per_second[link]);
  free_at_[link] = hop.time + span;
  link_busy_fs_[link] += span;
  if (journal_ != nullptr && journal_->room()) {
    journal_->links.push_back({hop.time, free_at_[link], transfer.tag, id(), static_cast<std::int32_t>(link), -1, 0});
  }
  link_class_bytes_[link * static_cast<std::size_t>(config_.message_classes) + transfer.message_class] += hop.bytes;
  if (leaves_source && --transfer.chunks_at_source == 0 && (transfer.flags & sim::kReplyWhenSent) != 0) {
    Message m;
    m.kind = MessageKind::sent;
    m.c = transfer.reply;
    post(transfer.source, m, free_at_[link]);
  }
  hop.time = free_at_[link] + config_.hop_latency_fs;
  hop.router = config_.link_target[link];
  hop.order = order_++;
  schedule(hop);
}

void LinkNetwork::evaluate(Fs t) {
  while (inbox_.due(t)) begin(inbox_.pop(), t);
  while (!hops_.empty() && hops_.front().time <= t) {
    std::pop_heap(hops_.begin(), hops_.end(), later);
    const Hop hop = hops_.back();
    hops_.pop_back();
    if (hop.router == kLinkFree) {
      serve(hop.transfer, hop.time);
    } else {
      take(hop);
    }
  }
}

void LinkNetwork::visit(sim::Visitor& v) {
  using sim::Kind;
  visit_mail(v);
  v.vector(Kind::stamp, free_at_);
  v.vector(Kind::stamp, hops_);
  v.vector(Kind::stamp, waiting_);
  v.value(Kind::state, free_waiting_);
  v.vector(Kind::state, queues_);
  v.vector(Kind::state, transfers_);
  v.value(Kind::state, free_transfer_);
  v.vector(Kind::state, chunks_due_);
  v.value(Kind::counter, order_);
  v.value(Kind::state, in_flight_);
  v.vector(Kind::counter, link_busy_fs_);
  v.vector(Kind::counter, link_class_bytes_);
  v.vector(Kind::counter, injected_bytes_);
  v.vector(Kind::counter, delivered_bytes_);
  v.value(Kind::counter, hop_events_);
}

void LinkNetwork::show_transfer(sim::Canonical& c, std::int32_t slot) {
  if (!c.name(id(), sim::Space::transfers, slot, transfers_.size())) return;
  const Transfer& transfer = transfers_[static_cast<std::size_t>(slot)];
  if (transfer.group >= 0) {
    c.refuse("a message goes to several endpoints");
    return;
  }
  c.same(transfer.tag);
  c.same(transfer.group);
  c.same(transfer.bytes);
  c.same(transfer.source);
  c.same(transfer.destination);
  c.same(transfer.chunks_at_source);
  c.same(transfer.chunks_left);
  c.same(transfer.message_class);
  c.same(transfer.flags);
  if ((transfer.flags & sim::kReplyWhenSent) != 0 && transfer.chunks_at_source > 0) {
    c.unit(transfer.source, transfer.reply);
  }
}

void LinkNetwork::canonical(sim::Canonical& c) {
  c.same(in_flight_);
  c.same(hops_.size());
  // an array in order is a heap
  std::sort(hops_.begin(), hops_.end(), [](const Hop& x, const Hop& y) { return later(y, x); });
  for (Hop& hop : hops_) {
    c.time(hop.time);
    c.same(static_cast<std::int64_t>(order_ - hop.order));
    c.grows(hop.order);
    c.same(hop.bytes);
    c.same(hop.router);
    if (hop.router == kLinkFree) {
      c.same(hop.transfer);
    } else {
      show_transfer(c, hop.transfer);
    }
    if (c.differs()) return;
  }
  std::sort(hops_.begin(), hops_.end(), [](const Hop& x, const Hop& y) { return later(y, x); });
  for (std::size_t link = 0; link < queues_.size(); ++link) {
    if (!c.lacks(sim::Part::link)) c.same(std::max<Fs>(free_at_[link] - c.now(), 0));
    c.move(free_at_[link], c.shift_fs());
    for (std::int32_t at = queues_[link].first; at >= 0 && !c.differs();
         at = waiting_[static_cast<std::size_t>(at)].next) {
      if (!c.name(id(), sim::Space::waiting, at, waiting_.size())) {  // each waits in one place
        c.differ();
        return;
      }
      if (waiting_[static_cast<std::size_t>(at)].next < 0) c.same(at == queues_[link].last);
      const Hop& hop = waiting_[static_cast<std::size_t>(at)].hop;
      c.same(hop.bytes);
      c.same(hop.router);
      show_transfer(c, hop.transfer);
    }
    c.same(-1);
  }
  canonical_mail(c);
  c.free_slots(id(), sim::Space::waiting, free_waiting_, -1, waiting_.size(),
               [this](std::size_t slot) { return waiting_[slot].next; });
  c.free_slots(id(), sim::Space::transfers, free_transfer_, -1, transfers_.size(),
               [this](std::size_t slot) { return transfers_[slot].next_free; });
  c.grows(order_);
  c.grow(link_busy_fs_);
  c.grow(link_class_bytes_);
  c.grow(injected_bytes_);
  c.grow(delivered_bytes_);
  c.grows(hop_events_);
}

std::string LinkNetwork::waiting_for() const {
  return in_flight_ == 0 ? std::string() : "\n  link network: " + std::to_string(in_flight_) + " messages under way";
}

std::string LinkNetwork::conservation_error() const {
  for (std::size_t c = 0; c < injected_bytes_.size(); ++c) {
    if (injected_bytes_[c] != delivered_bytes_[c]) {
      return "class " + std::to_string(c) + ": " + std::to_string(injected_bytes_[c]) + " B injected, " +
             std::to_string(delivered_bytes_[c]) + " B delivered";
    }
  }
  return {};
}

}  // namespace cosim::link
