#include "link/link_network.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

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
              0};
  ++in_flight_;
  injected_bytes_[m.message_class] += m.bytes;
  const std::int32_t router = router_of(transfer.source);
  for (std::int64_t k = 0; k < chunks; ++k) {
    schedule({t, order_++, (k + 1) * m.bytes / chunks - k * m.bytes / chunks, slot, router});
  }
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
  const std::int64_t rate = config_.link_bytes_per_second[link];
  const auto span = static_cast<Fs>((static_cast<__int128>(hop.bytes) * sim::kFsPerSecond + rate - 1) / rate);
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
  v.value(Kind::counter, order_);
  v.value(Kind::state, in_flight_);
  v.vector(Kind::counter, link_busy_fs_);
  v.vector(Kind::counter, link_class_bytes_);
  v.vector(Kind::counter, injected_bytes_);
  v.vector(Kind::counter, delivered_bytes_);
  v.value(Kind::counter, hop_events_);
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
