#include "endpoint/memory_node.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/canonical.hpp"

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

namespace {
constexpr std::int64_t kCopyChunkBytes = 4096;  // of a copy, granted at once
}

MemoryNode::MemoryNode(const MemoryNodeConfig& config, const mem::ChannelConfig& channel, const mem::AddressMap& map,
                       sim::TaskGraph& graph)
    : config_(config),
      map_(map),
      burst_bytes_(channel.access_bytes),
      packet_bursts_(static_cast<std::int32_t>(config.packet_payload_bytes / channel.access_bytes)),
      pcs_(channel.pseudo_channels),
      inflows_(std::int64_t{config.read_return_slots} * config.channels * channel.pseudo_channels *
               channel.access_bytes),
      graph_(graph) {
  if (config.channels <= 0) throw std::invalid_argument("a memory node needs at least one channel");
  if (packet_bursts_ <= 0) {
    throw std::invalid_argument("a packet carries " + std::to_string(config.packet_payload_bytes) +
                                " B, less than a burst of " + std::to_string(burst_bytes_) + " B");
  }
  if (config.read_return_slots < packet_bursts_) {
    throw std::invalid_argument("read_return_slots (" + std::to_string(config.read_return_slots) +
                                ") must hold the bursts of one packet (" + std::to_string(packet_bursts_) + ")");
  }
  controllers_.reserve(static_cast<std::size_t>(config.channels));
  for (std::int32_t c = 0; c < config.channels; ++c) {
    controllers_.push_back(mem::make_channel(channel));
    for (int pc = 0; pc < pcs_; ++pc) controllers_.back()->set_return_slots(pc, config.read_return_slots);
  }
  for (const auto& c : controllers_) command_tick_.push_back(c->next_event());
  lanes_.resize(static_cast<std::size_t>(config.channels * pcs_));
  touched_.resize(controllers_.size(), 0);
  find_ready();
  find_lanes();
  find_stripe();
  find_span();
}

void MemoryNode::find_stripe() {
  // a coordinate bit is a parity of address bits: one bit at a time tells all
  using mem::Field;
  int shift = 0;
  int above = 0;  // the lowest bit above all that decide anything but the row
  bool in_order = true;
  for (int bit = 0; (std::int64_t{1} << bit) < map_.capacity_bytes(); ++bit) {
    const mem::Coordinate at = map_.decode(std::uint64_t{1} << bit);
    if (at[Field::row] == 0) {
      shift = bit + 1;
      above = bit + 1;
      continue;
    }
    in_order = in_order && at[Field::row] == std::int64_t{1} << (bit - shift);
    mem::Coordinate others = at;
    others[Field::row] = 0;
    if (others.value != mem::Coordinate{}.value) above = bit + 1;
  }
  row_shift_ = in_order ? shift : -1;
  stripe_bytes_ = std::int64_t{1} << above;
}

void MemoryNode::find_lanes() {
  // Where address bits alone decide the pseudo-channel, its bursts are found without looking at the others.
  using mem::Field;
  lanes_plain_ = map_.is_plain(Field::channel) && map_.is_plain(Field::pseudo_channel);
  if (!lanes_plain_) return;
  lane_mask_ = map_.plain_bits(Field::channel) | map_.plain_bits(Field::pseudo_channel);
  for (std::int64_t channel = 0; channel < config_.channels; ++channel) {
    for (std::int64_t pc = 0; pc < pcs_; ++pc) {
      mem::Coordinate c;
      c[Field::channel] = channel;
      c[Field::pseudo_channel] = pc;
      lane_pattern_.push_back(map_.encode(c) & lane_mask_);
    }
  }
}

std::size_t MemoryNode::lane_of(std::int64_t address) const {
  const mem::Coordinate at = map_.decode(static_cast<std::uint64_t>(address));
  return static_cast<std::size_t>(at[mem::Field::channel] * pcs_ + at[mem::Field::pseudo_channel]);
}

mem::Request MemoryNode::request(std::int64_t address, mem::Op op) const {
  using mem::Field;
  const mem::Coordinate at = map_.decode(static_cast<std::uint64_t>(address));
  mem::Request r;
  r.op = op;
  r.pc = static_cast<std::uint8_t>(at[Field::pseudo_channel]);
  r.stack_id = static_cast<std::uint8_t>(at[Field::stack_id]);
  r.bg = static_cast<std::uint8_t>(at[Field::bank_group]);
  r.bank = static_cast<std::uint8_t>(at[Field::bank]);
  r.row = static_cast<std::int32_t>(at[Field::row]);
  r.column = static_cast<std::int32_t>(at[Field::column]);
  return r;
}

// The first burst at or after `address` and before `end` that goes to `lane`; -1 when there is none.
std::int64_t MemoryNode::next_of_lane(std::int64_t address, std::size_t lane, std::int64_t end) const {
  if (lanes_plain_) {
    const std::uint64_t found =
        mem::AddressMap::next_match(static_cast<std::uint64_t>(address), lane_mask_, lane_pattern_[lane]);
    return found < static_cast<std::uint64_t>(end) ? static_cast<std::int64_t>(found) : -1;
  }
  while (address < end && lane_of(address) != lane) address += burst_bytes_;
  return address < end ? address : -1;
}

Fs MemoryNode::next_of(bool progress_only) const {
  std::int64_t tick = mem::kNeverTick;
  if (progress_only) {
    for (std::size_t c = 0; c < live_channels(); ++c) tick = std::min(tick, controllers_[c]->next_progress());
  } else {
    for (std::size_t c = 0; c < live_channels(); ++c) tick = std::min(tick, command_tick_[c]);
  }
  tick = std::min(tick, next_ready_);
  if (!writes_.empty()) tick = std::min(tick, writes_.front().tick);
  return std::min(inbox_.next(), tick == mem::kNeverTick ? sim::kNever : config_.clock.edge_fs(tick));
}

Fs MemoryNode::next_event() const { return next_of(false); }
Fs MemoryNode::next_progress() const { return next_of(true); }

// Books a grant for a tile that goes to several nodes; true when it was the last.
bool MemoryNode::all_granted(const Message& m) {
  const auto group = static_cast<std::int32_t>(m.c - 1);
  auto at = std::find_if(waiting_.begin(), waiting_.end(),
                         [&](const Waiting& w) { return w.stream == m.a && w.address == m.address; });
  if (at == waiting_.end()) at = waiting_.insert(at, {m.a, m.address, m.bytes, group, 0});
  if (at->bytes != m.bytes) throw std::logic_error("the nodes of a stream have tiles of different sizes");
  if (++at->granted < static_cast<std::int32_t>(graph_.group(group).size())) return false;
  waiting_.erase(at);
  return true;
}

void MemoryNode::begin(const Message& m, std::int64_t tick) {
  if (m.address < 0 || m.bytes <= 0 || m.address % burst_bytes_ != 0 || m.bytes % burst_bytes_ != 0 ||
      m.address + m.bytes > map_.capacity_bytes()) {
    throw std::logic_error("a grant is not a range of whole bursts inside the memory");
  }
  if (span_bytes_ > 0) {
    if (((m.address | m.bytes) & (span_bytes_ - 1)) != 0) {
      spread(tick);
    } else if (tiles_open_ == 0) {
      try_join(tick);
    }
  }
  std::int32_t slot = free_tile_;
  if (slot >= 0) {
    free_tile_ = tiles_[static_cast<std::size_t>(slot)].next_free;
  } else {
    slot = static_cast<std::int32_t>(tiles_.size());
    tiles_.emplace_back();
    shares_.resize(shares_.size() + lanes_.size());
  }
  granted_bytes_ += m.bytes;
  ++tiles_open_;
  Tile& tile = tiles_[static_cast<std::size_t>(slot)];
  tile = {};
  tile.stream = m.a;
  tile.end = m.address + m.bytes;
  tile.reader = m.from;
  tile.bursts_left = static_cast<std::int32_t>(m.bytes / burst_bytes_);
  tile.order = orders_++;
  tile.message_class = m.message_class;
  tile.prefetch = m.flags;
  tile.group = static_cast<std::int32_t>(m.c - 1);
  if (tile.group >= 0) tile.reader = -1;
  for (std::size_t lane = 0; lane < live_lanes(); ++lane) {
    Share& part = share(slot, lane);
    part = {next_of_lane(m.address, lane, tile.end), 0, 0};
    for (std::int64_t a = part.next; a >= 0; a = next_of_lane(a + burst_bytes_, lane, tile.end)) ++part.bursts_left;
    if (part.next < 0) continue;
    (m.flags != 0 ? lanes_[lane].prefetches : lanes_[lane].demands).push_back(slot);
    touched_[lane / static_cast<std::size_t>(pcs_)] = 1;
  }
}

bool MemoryNode::ask_from(std::vector<std::int32_t>& tiles, std::size_t lane, std::int64_t tick) {
  mem::Channel& controller = *controllers_[lane / static_cast<std::size_t>(pcs_)];
  const int pc = static_cast<int>(lane % static_cast<std::size_t>(pcs_));
  while (!tiles.empty()) {
    const std::int32_t slot = tiles.front();
    Share& part = share(slot, lane);
    const Tile& tile = tiles_[static_cast<std::size_t>(slot)];
    while (part.next >= 0) {
      if (!controller.can_accept(mem::Op::read, pc)) return false;
      mem::Request read = request(part.next, mem::Op::read);
      read.message_class = tile.message_class;
      read.tag = static_cast<std::uint64_t>(slot) * static_cast<std::uint64_t>(pcs_) + static_cast<std::uint64_t>(pc);
      controller.accept(read, tick);
      part.next = next_of_lane(part.next + burst_bytes_, lane, tile.end);
    }
    tiles.erase(tiles.begin());
  }
  return true;
}

// Bytes of copies that have arrived, in address order, as the write queues have room. A burst is written when it is
// whole: the source's may be shorter.
void MemoryNode::ask_writes(std::int64_t tick) {
  for (Inflow& in : inflows_.flows()) {
    const std::int64_t whole = in.arrived < in.bytes ? in.arrived - in.arrived % burst_bytes_ : in.bytes;
    while (in.asked < whole) {
      const std::int64_t address = in.to_address + in.asked;
      const std::size_t lane = lane_of(address);
      mem::Channel& controller = *controllers_[lane / static_cast<std::size_t>(pcs_)];
      mem::Request write = request(address, mem::Op::write);
      if (!controller.can_accept(mem::Op::write, write.pc)) break;
      write.message_class = in.message_class;
      write.tag = static_cast<std::uint64_t>(in.task);
      controller.accept(write, tick);
      touched_[lane / static_cast<std::size_t>(pcs_)] = 1;
      in.asked += burst_bytes_;
    }
  }
}

void MemoryNode::finish_writes(std::int64_t tick, Fs t) {
  while (!writes_.empty() && writes_.front().tick <= tick) {
    std::pop_heap(writes_.begin(), writes_.end(), Written::later);
    Inflow* in = inflows_.find(writes_.back().task);
    writes_.pop_back();
    written_bytes_ += burst_bytes_;
    const std::int64_t task = in->task;
    if (inflows_.wrote(*in, burst_bytes_)) {
      Message m;
      m.kind = MessageKind::task_done;
      m.a = task;
      post(graph_.id(), m, t);
    }
  }
}

// A lane that waits has a full queue: only its channel can make room.
void MemoryNode::ask(std::int64_t tick) {
  for (std::size_t lane = 0; lane < live_lanes(); ++lane) {
    Lane& line = lanes_[lane];
    if (touched_[lane / static_cast<std::size_t>(pcs_)] == 0) continue;
    if (ask_from(line.demands, lane, tick)) ask_from(line.prefetches, lane, tick);
  }
}

void MemoryNode::burst_gone(std::int32_t slot, std::int32_t bursts) {
  Tile& tile = tiles_[static_cast<std::size_t>(slot)];
  tile.bursts_left -= bursts;
  if (tile.bursts_left > 0) return;
  tile.stream = -1;
  tile.next_free = free_tile_;
  free_tile_ = slot;
  --tiles_open_;
}

void MemoryNode::send(std::int32_t slot, std::size_t lane, std::int32_t bursts, Fs t) {
  std::int32_t unit = free_unit_;
  if (unit >= 0) {
    free_unit_ = units_[static_cast<std::size_t>(unit)].next_free;
  } else {
    unit = static_cast<std::int32_t>(units_.size());
    units_.emplace_back();
  }
  units_[static_cast<std::size_t>(unit)] = {static_cast<std::int32_t>(lane), bursts, -1, 1};
  const Tile& tile = tiles_[static_cast<std::size_t>(slot)];
  Message m;
  m.kind = MessageKind::send;
  m.message_class = tile.message_class;
  m.flags = sim::kReplyWhenSent;
  m.a = id();
  m.b = tile.reader;
  m.c = tile.stream;
  m.address = unit;
  m.bytes = bursts * burst_bytes_;
  read_bytes_ += m.bytes;
  if (tile.group < 0) {
    post(tile.reader == config_.near_reader ? config_.near_path : config_.network, m, t);
    return;
  }
  const auto members = graph_.group(tile.group);
  const auto near = std::find(members.begin(), members.end(), config_.near_reader);
  m.b = sim::kGroup - tile.group;
  if (near != members.end()) {
    m.b = config_.near_reader;
    post(config_.near_path, m, t);
    if (members.size() == 1) return;
    ++units_[static_cast<std::size_t>(unit)].leaving;
    m.b = sim::kGroup - (tile.group + 1 + static_cast<std::int32_t>(near - members.begin()));
  }
  post(config_.network, m, t);
}

void MemoryNode::find_ready() {
  ready_tick_.assign(lanes_.size(), mem::kNeverTick);
  next_ready_ = mem::kNeverTick;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Lane& line = lanes_[lane];
    if (line.ready_at < line.ready.size()) ready_tick_[lane] = line.ready[line.ready_at].tick;
    next_ready_ = std::min(next_ready_, ready_tick_[lane]);
  }
}

void MemoryNode::collect(std::int64_t tick, Fs t) {
  if (next_ready_ > tick) return;
  next_ready_ = mem::kNeverTick;
  for (std::size_t lane = 0; lane < live_lanes(); ++lane) {
    if (ready_tick_[lane] > tick) {
      next_ready_ = std::min(next_ready_, ready_tick_[lane]);
      continue;
    }
    Lane& line = lanes_[lane];
    while (line.ready_at < line.ready.size() && line.ready[line.ready_at].tick <= tick) {
      const std::int32_t slot = line.ready[line.ready_at++].tile;
      Share& part = share(slot, lane);
      ++part.gathered;
      ++line.gathered;
      --part.bursts_left;
      flush(slot, lane, t, false);
      if (line.gathered > 0 && line.gathered + line.leaving == config_.read_return_slots) flush_oldest(lane, t);
    }
    const bool more = line.ready_at < line.ready.size();
    ready_tick_[lane] = more ? line.ready[line.ready_at].tick : mem::kNeverTick;
    next_ready_ = std::min(next_ready_, ready_tick_[lane]);
    if (!more) {
      line.ready.clear();
      line.ready_at = 0;
    } else if (line.ready_at > 1024) {
      line.ready.erase(line.ready.begin(), line.ready.begin() + static_cast<std::ptrdiff_t>(line.ready_at));
      line.ready_at = 0;
    }
  }
  if (leaving_together_.empty()) return;
  for (std::size_t channel = 0; channel < controllers_.size(); ++channel) {
    for (const Leaving& each : leaving_together_) {
      const std::size_t lane = channel * static_cast<std::size_t>(pcs_) + static_cast<std::size_t>(each.pseudo_channel);
      leave(each.tile, lane, each.bursts, t);
    }
  }
  leaving_together_.clear();
}

void MemoryNode::flush_oldest(std::size_t lane, Fs t) {
  std::int32_t oldest = -1;
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (tiles_[i].stream < 0 || shares_[i * lanes_.size() + lane].gathered == 0) continue;
    if (oldest < 0 || tiles_[i].order < tiles_[static_cast<std::size_t>(oldest)].order) {
      oldest = static_cast<std::int32_t>(i);
    }
  }
  flush(oldest, lane, t, true);
}

void MemoryNode::flush(std::int32_t slot, std::size_t lane, Fs t, bool partial) {
  Share& part = share(slot, lane);
  const Tile& tile = tiles_[static_cast<std::size_t>(slot)];
  const bool is_near = tile.group < 0 && tile.reader == config_.near_reader;
  const std::int32_t full = is_near ? 1 : packet_bursts_;
  if (part.gathered == 0 || (!partial && part.gathered < full && part.bursts_left > 0)) return;
  const std::int32_t bursts = part.gathered;
  part.gathered = 0;
  lanes_[lane].gathered -= bursts;
  if (in_step_) {
    leaving_together_.push_back({static_cast<std::int32_t>(lane), slot, bursts});
    return;
  }
  leave(slot, lane, bursts, t);
}

void MemoryNode::leave(std::int32_t slot, std::size_t lane, std::int32_t bursts, Fs t) {
  lanes_[lane].leaving += bursts;
  send(slot, lane, bursts, t);
  burst_gone(slot, bursts);
}

void MemoryNode::cancel(std::int64_t stream, std::int32_t reader, std::int64_t tick, Fs t) {
  spread(tick);
  std::int64_t called_off = 0;
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (tiles_[i].stream != stream || tiles_[i].reader != reader) continue;
    const auto slot = static_cast<std::int32_t>(i);
    std::int32_t gone = 0;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      Share& part = share(slot, lane);
      std::int32_t unasked = 0;
      for (std::int64_t a = part.next; a >= 0; a = next_of_lane(a + burst_bytes_, lane, tiles_[i].end)) ++unasked;
      part.next = -1;
      std::erase(lanes_[lane].demands, slot);
      std::erase(lanes_[lane].prefetches, slot);
      const auto pc = static_cast<std::uint64_t>(lane) % static_cast<std::uint64_t>(pcs_);
      const std::uint64_t tag = static_cast<std::uint64_t>(slot) * static_cast<std::uint64_t>(pcs_) + pc;
      mem::Channel& controller = *controllers_[lane / static_cast<std::size_t>(pcs_)];
      unasked += static_cast<std::int32_t>(controller.cancel(tag, tag, tick));
      touched_[lane / static_cast<std::size_t>(pcs_)] = 1;
      part.bursts_left -= unasked;
      gone += unasked;
      flush(slot, lane, t, false);  // nothing more will fill this packet
    }
    called_off += gone * burst_bytes_;
    if (gone > 0) burst_gone(slot, gone);
  }
  cancelled_bytes_ += called_off;
  Message reply;
  reply.kind = MessageKind::cancelled;
  reply.a = stream;
  reply.bytes = called_off;
  post(reader, reply, t);
}

void MemoryNode::keep_journal(sim::Journal* journal) {
  sim::Node::keep_journal(journal);
  journal_at_.clear();
  if (journal == nullptr) return;
  spread(tick_);
  journal_at_.assign(lanes_.size() * static_cast<std::size_t>(controllers_.front()->config().banks()), -1);
}

// The task of a column command is that of its completion, which the same advance has booked.
void MemoryNode::note_commands(std::size_t channel) {
  mem::Channel& controller = *controllers_[channel];
  const auto banks = static_cast<std::size_t>(controller.config().banks());
  std::size_t next = 0;
  for (const mem::IssuedCommand& c : controller.commands) {
    const bool column = c.command >= mem::Command::RD && c.command <= mem::Command::WRA;
    std::int64_t task = -1;
    if (column) {
      while (next < controller.completions.size() && controller.completions[next].issue_tick != c.tick) ++next;
      if (next < controller.completions.size()) {
        const mem::Completion& done = controller.completions[next++];
        task = done.op == mem::Op::write ? static_cast<std::int64_t>(done.tag)
                                         : tiles_[done.tag / static_cast<std::uint64_t>(pcs_)].stream;
      }
    }
    if (journal_ == nullptr) continue;
    const std::size_t lane = channel * static_cast<std::size_t>(pcs_) + c.pc;
    const std::size_t at = lane * banks + static_cast<std::size_t>(std::max<std::int16_t>(c.bank, 0));
    const Fs when = config_.clock.edge_fs(c.tick);
    if (column && journal_at_[at] >= 0) {
      sim::BankUse& last = journal_->banks[static_cast<std::size_t>(journal_at_[at])];
      if (last.task == task && last.row == c.row && last.command == static_cast<std::uint8_t>(c.command)) {
        last.last = when;
        ++last.bursts;
        continue;
      }
    }
    if (!journal_->room()) continue;
    journal_at_[at] = static_cast<std::int64_t>(journal_->banks.size());
    journal_->banks.push_back({when, when, task, id(), static_cast<std::int32_t>(channel), c.pc, c.bank, c.row,
                               column ? 1 : 0, static_cast<std::uint8_t>(c.command)});
    if (c.bank < 0) {
      std::fill_n(journal_at_.begin() + static_cast<std::ptrdiff_t>(lane * banks), banks, -1);
    }
  }
  controller.commands.clear();
}

void MemoryNode::take_completions(std::size_t channel) {
  mem::Channel& controller = *controllers_[channel];
  stepped_bursts_ += static_cast<std::int64_t>(controller.completions.size());
  for (const mem::Completion& done : controller.completions) {
    if (done.op == mem::Op::write) {
      writes_.push_back({done.done_tick, static_cast<std::int64_t>(done.tag)});
      std::push_heap(writes_.begin(), writes_.end(), Written::later);
      continue;
    }
    const std::size_t lane = channel * static_cast<std::size_t>(pcs_) + done.pc;
    if (in_step_) --free_slots_[done.pc];
    const auto slot = static_cast<std::int32_t>(done.tag / static_cast<std::uint64_t>(pcs_));
    lanes_[lane].ready.push_back({done.done_tick, slot, 0});
    ready_tick_[lane] = lanes_[lane].ready[lanes_[lane].ready_at].tick;
    next_ready_ = std::min(next_ready_, ready_tick_[lane]);
  }
  controller.completions.clear();
}

void MemoryNode::evaluate(Fs t) {
  const std::int64_t tick = config_.clock.edge_at_or_before(t);
  tick_ = tick;
  // The commands of this tick were decided on what was known before it; what is seen now counts from the next on.
  stale_ = in_step_;
  for (std::size_t c = 0; c < live_channels(); ++c) {
    if (command_tick_[c] > tick && !every_edge_) continue;
    controllers_[c]->advance(tick);
    touched_[c] = 1;
    if (!controllers_[c]->commands.empty()) note_commands(c);
    take_completions(c);
  }
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    switch (m.kind) {
      case MessageKind::task_ready:
        spread(tick);
        inflows_.begin(m.a, graph_.task(m.a));
        graph_.task(m.a).start_fs = t;
        break;
      case MessageKind::delivered:
        inflows_.find(m.c)->arrived += m.bytes;
        graph_.task(m.c).moved_bytes += m.bytes;
        break;
      case MessageKind::grant:
        if (m.c == 0 || all_granted(m)) begin(m, tick);
        break;
      case MessageKind::sent: {
        Unit& unit = units_[static_cast<std::size_t>(m.c)];
        if (--unit.leaving > 0) break;
        release(static_cast<std::size_t>(unit.pseudo_channel), unit.bursts, tick);
        unit.next_free = free_unit_;
        free_unit_ = static_cast<std::int32_t>(m.c);
        break;
      }
      case MessageKind::cancel:
        cancel(m.a, m.from, tick, t);
        break;
      default:
        throw std::logic_error("a memory node cannot read this message");
    }
  }
  collect(tick, t);
  finish_writes(tick, t);
  ask(tick);
  if (!inflows_.empty()) {
    ask_writes(tick);
    bool erased = false;
    inflows_.grant(std::min(inflows_.buffer_bytes(), kCopyChunkBytes), [&](Inflow& in, const Message& m) {
      if (in.source >= 0) {
        post(in.source, m, t + config_.grant_latency_fs);
        return;
      }
      in.arrived += m.bytes;
      graph_.task(in.task).moved_bytes += m.bytes;
      erased = true;
    });
    if (erased) ask_writes(tick);
  }
  for (std::size_t c = 0; c < live_channels(); ++c) {
    if (touched_[c] == 0) continue;
    touched_[c] = 0;
    // a read of what waits in the write queue is served when it is asked for, or when a return slot is free
    if (!controllers_[c]->completions.empty()) take_completions(c);
    command_tick_[c] = controllers_[c]->next_event();
  }
  if (in_step_ && *std::min_element(free_slots_.begin(), free_slots_.end()) < least_slots_) spread(tick);
}

void MemoryNode::visit(sim::Visitor& v) {
  using sim::Kind;
  spread(tick_);
  visit_mail(v);
  for (const auto& c : controllers_) c->visit(v);
  for (Lane& lane : lanes_) {
    v.vector(Kind::state, lane.demands);
    v.vector(Kind::state, lane.prefetches);
    v.vector(Kind::stamp, lane.ready);
    v.value(Kind::state, lane.ready_at);
    v.value(Kind::state, lane.gathered);
    v.value(Kind::state, lane.leaving);
  }
  v.vector(Kind::state, tiles_);
  v.vector(Kind::state, waiting_);
  v.vector(Kind::state, shares_);
  v.value(Kind::state, free_tile_);
  v.vector(Kind::state, units_);
  v.value(Kind::state, free_unit_);
  v.value(Kind::stamp, tick_);
  v.value(Kind::counter, granted_bytes_);
  v.value(Kind::counter, read_bytes_);
  v.value(Kind::counter, cancelled_bytes_);
  v.value(Kind::counter, written_bytes_);
  v.value(Kind::state, tiles_open_);
  v.value(Kind::state, orders_);
  inflows_.visit(v);
  v.vector(Kind::stamp, writes_);
  v.vector(Kind::stamp, command_tick_);
  find_ready();
}

void MemoryNode::regions(sim::Canonical& c) { inflows_.regions(c, id()); }

// Streams move through their regions: rows and addresses are shown relative to how far each has come. A row that lies
// in several regions, or in none, stays what it is; a stream stops before it comes to such a row.
void MemoryNode::show_regions(sim::Canonical& c) const {
  for (const sim::Region& mine : c.regions()) {
    if (mine.memory != id()) continue;
    c.same(mine.next & (stripe_bytes_ - 1));
    std::int64_t limit = mine.end;
    for (const sim::Region& other : c.regions()) {
      if (other.memory != id() || &other == &mine) continue;
      const std::int64_t first = std::max(mine.begin >> row_shift_, other.begin >> row_shift_);
      const std::int64_t last = std::min((mine.end - 1) >> row_shift_, (other.end - 1) >> row_shift_);
      if (first <= last && last >= mine.next >> row_shift_) limit = std::min(limit, first << row_shift_);
    }
    std::int64_t next = mine.next;
    c.grows_below(next, limit + 1);
  }
}

void MemoryNode::row(sim::Canonical& c, std::int32_t& row) {
  const sim::Region* owner = nullptr;
  int owners = 0;
  for (const sim::Region& r : c.regions()) {
    if (r.memory != id() || row < r.begin >> row_shift_ || row > (r.end - 1) >> row_shift_) continue;
    owner = &r;
    ++owners;
  }
  c.same(owners);
  if (owners != 1) {
    c.same(row);
    c.grows(row);  // not at all
    return;
  }
  c.same(owner->stream);
  c.relative(row, owner->next >> row_shift_);
}

void MemoryNode::tag(sim::Canonical& c, mem::Op op, std::uint64_t tag) {
  if (op == mem::Op::write) {
    c.same(tag);
    return;
  }
  c.same(tag % static_cast<std::uint64_t>(pcs_));
  c.name(id(), sim::Space::tiles, static_cast<std::int64_t>(tag / static_cast<std::uint64_t>(pcs_)), tiles_.size());
}

// Tiles are named by their age.
void MemoryNode::show_tiles(sim::Canonical& c) {
  std::vector<std::int32_t> open;
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (tiles_[i].stream >= 0) open.push_back(static_cast<std::int32_t>(i));
  }
  std::sort(open.begin(), open.end(), [this](std::int32_t x, std::int32_t y) {
    return tiles_[static_cast<std::size_t>(x)].order < tiles_[static_cast<std::size_t>(y)].order;
  });
  c.same(tiles_open_);
  for (const std::int32_t slot : open) {
    Tile& tile = tiles_[static_cast<std::size_t>(slot)];
    c.name(id(), sim::Space::tiles, slot, tiles_.size());
    c.same(tile.stream);
    c.same(tile.reader);
    c.same(tile.bursts_left);
    c.same(tile.message_class);
    c.same(tile.prefetch);
    c.same(tile.group);
    c.relative(tile.order, orders_);
    for (std::size_t lane = 0; lane < live_lanes(); ++lane) {
      Share& part = share(slot, lane);
      c.same(part.next < 0 ? -1 : tile.end - part.next);
      if (part.next >= 0) c.grows(part.next);
      if (c.lacks(sim::Part::tiles)) continue;
      c.same(part.bursts_left);
      c.same(part.gathered);
    }
    c.relative(tile.end, c.next_of(id(), tile.reader, tile.stream));
    if (c.differs()) return;
  }
  c.grows(orders_);
}

void MemoryNode::canonical(sim::Canonical& c) {
  if (row_shift_ < 0) {
    c.refuse("an address map does not have the row in its top bits");
    return;
  }
  const auto shared = [](const Tile& tile) { return tile.stream >= 0 && tile.group >= 0; };
  if (!waiting_.empty() || std::any_of(tiles_.begin(), tiles_.end(), shared)) {
    c.refuse("a stream goes to several endpoints");
    return;
  }
  const sim::Present present = c.present(config_.clock);
  c.phase(config_.clock);
  c.held(tick_, present);
  c.same(in_step_);
  for (std::size_t i = 0; i < live_channels(); ++i) c.due(command_tick_[i], mem::kNeverTick, present);
  for (const std::int32_t slots : more_slots_) c.same(slots);
  for (const std::int32_t slots : free_slots_) c.same(slots);
  show_regions(c);
  if (c.differs()) return;
  show_tiles(c);
  for (const Lane& lane : lanes_) c.same(lane.leaving);
  for (std::size_t live = 0; live < live_lanes(); ++live) {
    Lane& lane = lanes_[live];
    c.same(lane.gathered);
    for (auto* tiles : {&lane.demands, &lane.prefetches}) {
      c.same(tiles->size());
      for (const std::int32_t slot : *tiles) c.name(id(), sim::Space::tiles, slot, tiles_.size());
    }
    c.same(lane.ready.size() - lane.ready_at);
    for (std::size_t i = lane.ready_at; i < lane.ready.size(); ++i) {
      if (c.lacks(sim::Part::returns)) {
        c.move(lane.ready[i].tick, present.shift);
      } else {
        c.stamp(lane.ready[i].tick, present);
      }
      c.name(id(), sim::Space::tiles, lane.ready[i].tile, tiles_.size());
    }
    if (c.differs()) return;
  }
  find_ready();
  // an array in order is a heap
  std::sort(writes_.begin(), writes_.end(), [](const Written& x, const Written& y) { return Written::later(y, x); });
  c.same(writes_.size());
  for (Written& written : writes_) {
    c.stamp(written.tick, present);
    c.same(written.task);
  }
  inflows_.canonical(c, graph_);
  canonical_mail(c, [this](sim::Canonical& all, Message& m) {
    if (m.kind == MessageKind::sent) {
      all.unit(id(), m.c);
      return;
    }
    all.same(m.a);
    all.same(m.b);
    all.same(m.c);
    if (m.kind == MessageKind::grant) {
      all.relative(m.address, all.next_of(id(), m.from, m.a));
    } else {
      all.same(m.address);
    }
  });
  c.free_slots(id(), sim::Space::tiles, free_tile_, -1, tiles_.size(),
               [this](std::size_t slot) { return tiles_[slot].stream < 0 ? tiles_[slot].next_free : -2; });
  for (std::size_t i = 0; i < live_channels(); ++i) {
    if (c.differs()) return;
    controllers_[i]->walk(c, present, *this);
  }
  c.grows(granted_bytes_);
  c.grows(read_bytes_);
  c.grows(cancelled_bytes_);
  c.grows(written_bytes_);
}

void MemoryNode::named_slots(sim::Canonical& c) {
  for (const std::int32_t slot : c.named(id(), sim::Space::units)) {
    if (static_cast<std::size_t>(slot) >= units_.size()) {
      c.differ();
      return;
    }
    c.same(units_[static_cast<std::size_t>(slot)].pseudo_channel);
    c.same(units_[static_cast<std::size_t>(slot)].bursts);
    c.same(units_[static_cast<std::size_t>(slot)].leaving);
  }
  c.free_slots(id(), sim::Space::units, free_unit_, -1, units_.size(),
               [this](std::size_t slot) { return units_[slot].next_free; });
}

std::string MemoryNode::waiting_for() const {
  if (tiles_open_ == 0 && inflows_.empty() && waiting_.empty()) return {};
  std::string text = "\n  memory node " + std::to_string(id()) + " has " + std::to_string(tiles_open_) + " open tiles";
  for (const Waiting& w : waiting_) {
    text += "\n    stream of task " + std::to_string(w.stream) + ": " + std::to_string(w.granted) + " of " +
            std::to_string(graph_.group(w.group).size()) + " nodes have granted the tile at " +
            std::to_string(w.address);
  }
  for (std::size_t c = 0; c < controllers_.size(); ++c) {
    const mem::Channel& controller = *controllers_[in_step_ ? 0 : c];
    if (controller.queued() > 0) text += "\n    channel " + std::to_string(c) + ": " + controller.describe_wait();
  }
  return text;
}

std::string MemoryNode::conservation_error() const {
  for (std::size_t c = 0; c < live_channels(); ++c) {
    std::string text = controllers_[c]->verify_conservation();
    if (!text.empty()) return text;
  }
  if (tiles_open_ == 0 && granted_bytes_ != read_bytes_ + cancelled_bytes_) {
    return std::to_string(granted_bytes_) + " B granted, " + std::to_string(read_bytes_) + " B read, " +
           std::to_string(cancelled_bytes_) + " B called off";
  }
  return {};
}

}  // namespace cosim::endpoint
