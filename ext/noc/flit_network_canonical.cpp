// The canonical form of a network.
//
// A ring is shown from the slot at its front on: where in memory a flit lies does not matter. Packets are named in the
// order in which their flits are met. Everything else is as visit() has it after a rebase to the last step.
#include <algorithm>
#include <vector>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "sim/canonical.hpp"
#include "sim/random.hpp"

namespace cosim::noc {

namespace {

// What visit() shows as plain state, byte by byte.
class PlainState final : public sim::Visitor {
 public:
  explicit PlainState(sim::Canonical& c) : c_(c) {}

 protected:
  void bytes(sim::Kind, void* data, std::size_t size, std::size_t) override {
    const auto* at = static_cast<const std::uint8_t*>(data);
    for (std::size_t i = 0; i < size; ++i) c_.same(at[i]);
  }

 private:
  sim::Canonical& c_;
};

}  // namespace

struct FlitNetwork::Walk {
  FlitNetwork& n;
  sim::Canonical& c;
  std::int32_t node;
  sim::Present present;  // of the last step
  PacketTags& tags;
  std::vector<std::int64_t> inside = std::vector<std::int64_t>(n.packets_.size());  // flits in the network, by slot

  // `started`: its head has left the source.
  void packet(std::uint32_t slot, bool started) {
    if (!c.name(node, sim::Space::packets, slot, n.packets_.size())) return;
    Packet& p = n.packets_[slot];
    c.same(started);
    c.stamp(p.create, present);
    if (started) c.stamp(p.inject, present);
    c.same(p.path);
    c.same(p.source);
    c.same(p.dest);
    c.same(p.size);
    c.same(p.route_state);
    c.same(p.message_class);
    c.same(p.copy);
    c.same(p.held);
    tags.show(c, p.tag);
  }

  // An empty ring whose slots have all been free since before the last step is one item.
  void ring(std::uint32_t front) {
    const std::uint32_t first = front & ~n.ring_mask_;
    std::uint32_t any = 0;
    for (std::uint32_t i = 0; i <= n.ring_mask_; ++i) any |= n.rings_[first + i];
    c.same(any == 0);
    if (any == 0) return;
    for (std::uint32_t i = 0; i <= n.ring_mask_; ++i) {
      const std::uint32_t word = n.rings_[first | ((front + i) & n.ring_mask_)];
      if ((word & kFlit) == 0) {
        if (!c.lacks(sim::Part::credit)) c.same(word);
        continue;
      }
      c.same(word & ~kPacketMask);
      const std::uint32_t slot = word & kPacketMask;
      packet(slot, true);
      if (c.differs()) return;
      ++inside[slot];
    }
  }

  // A place in the ring of input VC `id`.
  void place(std::uint32_t slot, std::uint32_t id) {
    const std::uint32_t front = n.input(id).front;
    c.same((slot - front) & n.ring_mask_);
    c.same((slot ^ front) <= n.ring_mask_);
  }

  // What never changes and yet is saved, folded: one look at all of it tells that none of it was tampered with.
  void constants(const Port& port, const InputVc& in, const OutputVc& out) {
    std::uint64_t folded = 0;
    for (const std::uint64_t constant :
         {port.step, std::uint64_t{port.link_time} << 32U | port.credit, std::uint64_t{port.up} << 32U | port.terminal,
          std::uint64_t{port.source} << 16U | std::uint64_t{in.port} << 8U | in.vc,
          std::uint64_t{in.front & ~n.ring_mask_}, std::uint64_t{out.down} << 32U | out.bit,
          std::uint64_t{out.port} << 8U | out.vc}) {
      folded = sim::mix64(folded ^ constant);
    }
    c.same(folded);
    c.same(in.lanes);
  }

  void set(VcSet shown) {
    c.same(static_cast<std::uint64_t>(shown));
    if (!n.wide_.empty()) c.same(static_cast<std::uint64_t>(shown >> 64U));
  }

  void routers() {
    for (std::uint32_t r = 0; r < n.num_routers_; ++r) {
      const Router<VcSet> masks = n.masks(r);
      const VcSet heads = n.allocation_ == nullptr ? 0 : masks.va[0] | masks.va[1];
      for (const VcSet mask : {masks.va[0], masks.va[1], masks.sa[0], masks.sa[1], masks.blocked, masks.parked}) {
        set(mask);
      }
      for (std::uint32_t p = 0; p < as_u32(n.spec_.ports); ++p) {
        const Port& port = n.port(r, p);
        set(n.routed_to(r, p));
        c.same(port.free_vcs);
        if (!c.lacks(sim::Part::arbiter)) {
          c.same(std::uint32_t{port.sa_input} << 16U | std::uint32_t{port.sa_output} << 8U | port.sa_vc);
        }
        for (std::uint32_t v = 0; v < n.num_vcs_; ++v) {
          const std::uint32_t id = first_id(r) + p * n.num_vcs_ + v;
          const InputVc& in = n.input(id);
          if (!c.lacks(sim::Part::vc))
            c.same(std::uint64_t{in.vcs} << 16U | std::uint64_t{in.output} << 8U | in.output_vc);
          c.same(in.visible);
          const bool waits = ((masks.blocked | masks.parked | heads) & vc_bit(bit_of(id))) != 0;
          const bool to_wait = n.allocation_ != nullptr && in.output != kNoPort;  // also of what has not asked yet
          if (waits || to_wait) c.same(in.since);
          ring(in.front);
          OutputVc& out = n.output(id);
          constants(port, in, out);
          c.same(out.owner);
          c.grows(out.flits);
          if (port.terminal != kNoLink) {
            c.same(out.write & ~n.ring_mask_);
            ring(out.write);
          } else if (port.link_time != 0) {
            place(out.write, out.down);
          }
          Stalls& stalls = n.stalls(id);
          c.grows(stalls.no_credit);
          c.grows(stalls.lost_switch);
          c.grows(stalls.busy_vc);
          c.grows(stalls.lost_vc);
        }
        if (c.differs()) return;
      }
    }
  }

  void events() {
    for (const std::uint64_t word : n.active_) c.same(word);
    for (std::uint32_t slot = 0; slot <= n.arrivals_mask_; ++slot) {
      const std::uint32_t count = n.arrivals_count(slot);
      c.same(count);
      for (std::uint32_t i = 0; i < count; ++i) c.same(n.arrivals_due_[std::size_t{slot} * n.arrivals_room_ + i]);
    }
    for (const auto& wakes : n.wakes_due_) {
      c.same(wakes.size());
      if (c.lacks(sim::Part::wake)) continue;
      for (const std::uint32_t wake : wakes) c.same(wake);
    }
    // an array in order is a heap
    std::sort(n.future_sources_.begin(), n.future_sources_.end(),
              [](const FutureSource& x, const FutureSource& y) { return y > x; });
    c.same(n.future_sources_.size());
    for (FutureSource& future : n.future_sources_) {
      c.stamp(future.cycle, present);
      c.same(future.terminal);
    }
  }

  void sources() {
    for (std::uint32_t t = 0; t < n.terminals_.size(); ++t) {
      Terminal& terminal = n.terminals_[t];
      c.same(std::uint64_t{terminal.input} << 32U | terminal.gap);
      c.same(terminal.turn);
      c.same(terminal.armed != kNoEvent);
      if (terminal.armed != kNoEvent) c.stamp(terminal.armed, present);
      for (std::uint32_t v = 0; v < n.num_vcs_; ++v) {
        place(n.source_write_[std::size_t{t} * n.num_vcs_ + v], terminal.input + v);
      }
      for (std::uint32_t k = 0; k < n.num_classes_; ++k) {
        const SourceQueue& queue = n.queues_[std::size_t{t} * n.num_classes_ + k];
        c.same(queue.left);
        c.same(queue.vc);
        c.same(queue.after);
        bool started = queue.left != 0;
        for (std::uint32_t at = queue.first; at != kNoPacket && !c.differs(); at = n.packets_[at].next) {
          packet(at, started);
          started = false;
          if (!c.differs() && n.packets_[at].next == kNoPacket) c.same(at == queue.last);
        }
        c.same(-1);
      }
      c.grows(n.window_injected_[t]);
      c.grows(n.window_ejected_[t]);
      c.grows(n.injected_to_[t]);
      c.grows(n.ejected_at_[t]);
    }
  }

  // With every flit under way, the sum that its packet keeps is behind by the time at which it left.
  void sums() {
    for (const std::int32_t slot : c.named(node, sim::Space::packets)) {
      const auto at = static_cast<std::size_t>(slot);
      Packet& p = n.packets_[at];
      c.same(p.flit_sum + inside[at] * n.cycle_);
      c.move(p.flit_sum, -inside[at] * present.shift);
    }
  }
};

void FlitNetwork::canonical(sim::Canonical& c, std::int32_t node, const sim::Present& present, PacketTags& tags) {
  if (routing_ != nullptr || ways_ != nullptr) {
    c.refuse("routes are decided packet by packet, by a routing function");
    return;
  }
  const AllocationSpec& allocation = spec_.allocation;
  if (models_ != nullptr || allocation.vc_plugin != nullptr || allocation.sw_plugin != nullptr) {
    c.refuse("routers or arbiters are a plug-in");
    return;
  }
  if (sessions_ != nullptr || retry_ != nullptr) {
    c.refuse(sessions_ != nullptr ? "the network has a class of sessions" : "links flip bits");
    return;
  }
  if (trees_ != nullptr || reductions_ != nullptr) {
    c.refuse(trees_ != nullptr ? "the network has a class of multicasts" : "the network has a class of reductions");
    return;
  }
  if (!changes_.empty()) {
    c.refuse("links fail at a cycle");
    return;
  }
  if (cycle_ >= 0) rebase(cycle_);
  c.same(queued_packets_);
  c.same(fault_countdown_);
  Walk walk{*this, c, node, present, tags};
  walk.events();
  if (c.differs()) return;
  walk.sources();
  if (c.differs()) return;
  walk.routers();
  if (c.differs()) return;
  for (const std::uint32_t owned : source_owned_) c.same(owned);
  for (const VcSet awaited : awaits_tail_) walk.set(awaited);
  if (allocation_ != nullptr && !c.lacks(sim::Part::allocator)) {
    PlainState shown(c);
    allocation_->vcs.visit(shown);
    allocation_->ports.visit(shown);
    for (const std::uint8_t next : allocation_->next_vc) c.same(next);
  }
  for (auto* stamps : {&batch_start_, &batch_end_, &last_send_}) {
    for (const std::uint32_t stamp : *stamps) c.same(stamp);
  }
  c.same(arrivals_.size() + departures_.size() + flit_arrivals_.size());
  c.same(window_begin_);
  c.same(window_end_);
  walk.sums();
  c.free_slots(node, sim::Space::packets, std::int64_t{free_packet_}, std::int64_t{kNoPacket}, packets_.size(),
               [this](std::size_t slot) { return std::int64_t{packets_[slot].next}; });
  c.same(flits_in_flight());
  c.grows(injected_flits_);
  c.grows(ejected_flits_);
  c.move(cycle_, present.shift);
  c.move(base_, present.shift);
}

}  // namespace cosim::noc
