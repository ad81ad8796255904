#include "mem/replay.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace cosim::mem {
namespace {

constexpr std::int64_t kEventsOfRepeating = 4096;  // what a bout of repeated macro-steps counts as
constexpr std::size_t kBatch = 256;                // requests given to a channel at once
constexpr std::int64_t kAhead = 32;                // of those, what another stream is given more than the first

}  // namespace

Replay::Replay(const ChannelConfig& config, int channels, RequestTable table, std::optional<AddressMap> map,
               bool skipping)
    : config_(config),
      channels_(channels),
      table_(std::move(table)),
      map_(std::move(map)),
      skipping_(skipping),
      takes_only_with_room_(config.kind == MemoryKind::dram && !config.plugin && !config.slot_freed_at_act) {
  if (map_) row_stride_ = map_->row_stride();
  const std::size_t n = table_.rows();
  results_.accept_tick.assign(n, -1);
  results_.issue_tick.assign(n, -1);
  results_.done_tick.assign(n, -1);
  results_.row_result.assign(n, 0);
  for (int c = 0; c < channels; ++c) controllers_.push_back(make_channel(config));
  if (!map_) {
    const std::size_t pairs = config.shared_queues ? 1 : static_cast<std::size_t>(config.pseudo_channels);
    rows_of_.resize(static_cast<std::size_t>(channels) * pairs);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t pair = pairs == 1 ? 0 : table_.pseudo_channel[i];
      rows_of_[static_cast<std::size_t>(table_.channel[i]) * pairs + pair].push_back(static_cast<std::uint32_t>(i));
    }
  }
}

void Replay::set_return_buffer(const ReturnBuffer& buffer) {
  if (skipping_) throw std::invalid_argument("a return buffer cannot be looked at with skipping on");
  if (buffer.slots < 0 || buffer.ticks < 0) throw std::invalid_argument("a return buffer has slots and ticks >= 0");
  buffer_ = buffer;
  event_by_event_ = true;
}

void Replay::start_channel() {
  streams_.clear();
  for (Returns& r : returns_) {
    r = {};
    r.at.resize(static_cast<std::size_t>(buffer_.slots));
  }
  for (int pc = 0; buffer_.slots > 0 && pc < config_.pseudo_channels; ++pc) {
    controllers_[static_cast<std::size_t>(now_channel_)]->set_return_slots(pc, buffer_.slots);
  }
  const std::size_t pairs = config_.shared_queues ? 1 : static_cast<std::size_t>(config_.pseudo_channels);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    Stream s;
    s.pc = config_.shared_queues ? -1 : static_cast<int>(pair);
    if (!map_) {
      s.rows = std::move(rows_of_[static_cast<std::size_t>(now_channel_) * pairs + pair]);
    } else if (map_->is_plain(Field::channel) && map_->is_plain(Field::pseudo_channel)) {
      // step from burst to burst of this stream directly
      Coordinate c;
      c[Field::channel] = now_channel_;
      s.select_mask = map_->plain_bits(Field::channel);
      if (s.pc >= 0) {
        c[Field::pseudo_channel] = s.pc;
        s.select_mask |= map_->plain_bits(Field::pseudo_channel);
      }
      s.select_value = map_->encode(c) & s.select_mask;
      s.bursts_per_dram_row =
          static_cast<std::int64_t>(row_stride_ >> std::popcount(s.select_mask)) / map_->access_bytes();
    }
    streams_.push_back(std::move(s));
    fetch(streams_.back());
  }
  period_ = look_at_ = boundary_ = 0;
  left_ = std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.have; });
  serving_ = left_ && serves();
  if (!serving_) offer(0);
}

void Replay::fetch(Stream& s) {
  const std::size_t row = s.row;
  fetch(s, s);
  if (map_ && s.have && (s.spans.empty() || s.row != row)) s.spans.push_back({s.ordinal, s.row});
}

void Replay::name(const Stream& s, Cursor& c) {
  ++c.ordinal;
  c.next.tag = tag_of(s, c.ordinal);
  c.have = true;
}

// Finds the burst behind the one at the cursor.
void Replay::fetch(const Stream& s, Cursor& c) const {
  c.have = false;
  if (map_) {
    fetch_address(s, c);
    return;
  }
  if (c.at == s.rows.size()) return;
  const std::size_t i = s.rows[c.at++];
  c.next.op = static_cast<Op>(table_.op[i]);
  c.next.pc = table_.pseudo_channel[i];
  c.next.stack_id = table_.stack_id[i];
  c.next.bg = table_.bank_group[i];
  c.next.bank = table_.bank[i];
  c.next.row = table_.row[i];
  c.next.column = table_.column[i];
  c.row = static_cast<std::uint32_t>(i);
  c.arrive = table_.arrive_tick[i];
  name(s, c);
}

[[gnu::noinline]] void Replay::fetch_address(const Stream& s, Cursor& c) const {
  const auto burst = static_cast<std::uint64_t>(map_->access_bytes());
  while (true) {
    if (!c.in_row) {
      if (c.at == table_.rows()) return;
      c.address = static_cast<std::uint64_t>(table_.address[c.at]);
      c.end = c.address + static_cast<std::uint64_t>(table_.size_bytes[c.at]);
      c.in_row = true;
    }
    const std::uint64_t found =
        s.select_mask != 0 ? AddressMap::next_match(c.address, s.select_mask, s.select_value) : c.address;
    if (found >= c.end) {
      c.in_row = false;
      ++c.at;
      continue;
    }
    // what next_match skipped over leaves the offset within a burst untouched: addresses are whole bursts
    c.address = found + burst;
    const Coordinate where = map_->decode(found);
    if (where[Field::channel] != now_channel_ || (s.pc >= 0 && where[Field::pseudo_channel] != s.pc)) continue;
    c.next.op = static_cast<Op>(table_.op[c.at]);
    c.next.pc = static_cast<std::uint8_t>(where[Field::pseudo_channel]);
    c.next.stack_id = static_cast<std::uint8_t>(where[Field::stack_id]);
    c.next.bg = static_cast<std::uint8_t>(where[Field::bank_group]);
    c.next.bank = static_cast<std::uint8_t>(where[Field::bank]);
    c.next.row = static_cast<std::int32_t>(where[Field::row]);
    c.next.column = static_cast<std::int32_t>(where[Field::column]);
    c.found = found;
    c.row = static_cast<std::uint32_t>(c.at);
    c.arrive = table_.arrive_tick[c.at];
    name(s, c);
    return;
  }
}

[[gnu::flatten]] void Replay::offer(std::int64_t boundary) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  boundary_ = boundary;
  arrival_ = kNeverTick;
  left_ = blocked_ = false;
  for (Stream& s : streams_) {
    // what has been refused stays refused until its queue has room
    if (s.blocked && (takes_only_with_room_ || controller.can_accept(s.next.op, s.next.pc))) s.blocked = false;
    while (s.have && !s.blocked && s.arrive <= boundary) {
      if (!controller.try_accept(s.next, boundary)) {
        s.blocked = true;
        break;
      }
      std::int64_t& accepted = results_.accept_tick[s.row];
      if (accepted < 0 || boundary < accepted) accepted = boundary;
      bytes_ += config_.access_bytes;
      if (recording_.on) recording_.accepted(place_of(s), s.next, s.arrive, boundary);
      fetch(s);
    }
    if (!s.have) continue;
    left_ = true;
    if (s.blocked) {
      blocked_ = true;
    } else {
      arrival_ = std::min(arrival_, s.arrive);
    }
  }
  collect();
}

// Whether the channel takes requests by itself: not where macro-steps are recorded or are to be looked for.
bool Replay::serves() const {
  if (event_by_event_) return false;
  if (!skipping_) return true;
  const Stream& lead = streams_.front();
  return !lead.have || lead.ordinal < stop_at() || !lead.batch.all_taken();
}

void Replay::stands_still() const {
  throw std::logic_error("memory channel " + std::to_string(now_channel_) + " stands still:\n" +
                         channel(now_channel_).describe_wait());
}

// Likewise of a table of coordinates.
void Replay::fill_rows(Stream& s, std::int64_t most) {
  Batch& b = s.batch;
  const std::size_t first = s.at - 1;  // the row at the cursor
  b.count = std::min(static_cast<std::size_t>(most), s.rows.size() - first);
  for (std::size_t k = 0; k < b.count; ++k) {
    const std::uint32_t i = s.rows[first + k];
    Request& r = b.requests[k];
    r = {static_cast<Op>(table_.op[i]),
         table_.pseudo_channel[i],
         table_.stack_id[i],
         table_.bank_group[i],
         table_.bank[i],
         0,
         0,
         0,
         table_.row[i],
         table_.column[i],
         0};
    r.tag = tag_of(s, s.ordinal + static_cast<std::int64_t>(k));
    b.arrive[k] = table_.arrive_tick[i];
    b.row[k] = i;
  }
  s.at += b.count - 1;
  s.ordinal += static_cast<std::int64_t>(b.count) - 1;
  fetch(s);
}

void Replay::fill(Stream& s) {
  Batch& b = s.batch;
  b.from = s;
  b.taken = b.count = 0;
  if (b.requests.empty()) {
    b.requests.resize(kBatch);
    b.arrive.resize(kBatch);
    b.accepted.resize(kBatch);
    b.row.resize(kBatch);
    b.found.resize(kBatch);
  }
  auto most = static_cast<std::int64_t>(kBatch);
  const Stream& lead = streams_.front();
  if (skipping_ && &s == &lead) {
    most = std::min(most, stop_at() - s.ordinal);
  } else if (skipping_ && lead.have) {  // what is not taken when the first one stops is given back
    most = std::min(most, static_cast<std::int64_t>(lead.batch.count - lead.batch.taken) + kAhead);
  }
  if (!map_ && s.have && most > 0) {
    fill_rows(s, most);
    return;
  }
  while (s.have && static_cast<std::int64_t>(b.count) < most) {
    b.requests[b.count] = s.next;
    b.arrive[b.count] = s.arrive;
    b.found[b.count] = s.found;
    b.row[b.count++] = s.row;
    fetch(s);
  }
}

// Sets the cursor back to the first one not taken.
void Replay::put_back(Stream& s) {
  Batch& b = s.batch;
  if (b.all_taken()) return;
  Cursor c = b.from;
  c.ordinal += static_cast<std::int64_t>(b.taken);
  c.have = true;
  c.next = b.requests[b.taken];
  c.arrive = b.arrive[b.taken];
  c.row = b.row[b.taken];
  if (map_) {
    c.at = c.row;
    c.in_row = true;
    c.found = b.found[b.taken];
    c.address = c.found + static_cast<std::uint64_t>(map_->access_bytes());
    c.end = static_cast<std::uint64_t>(table_.address[c.at]) + static_cast<std::uint64_t>(table_.size_bytes[c.at]);
  } else {
    c.at += b.taken;
  }
  static_cast<Cursor&>(s) = c;
  while (!s.spans.empty() && s.spans.back().first > s.ordinal) s.spans.pop_back();
  b.taken = b.count = 0;
}

// The channel takes requests and goes on for a while; returns what that counts as in events.
std::int64_t Replay::serve() {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  offers_.clear();
  offering_.clear();
  for (Stream& s : streams_) {
    Batch& b = s.batch;
    if (b.all_taken()) fill(s);
    if (b.all_taken()) continue;
    offers_.push_back(
        {{b.requests.data(), b.count}, {b.arrive.data(), b.count}, {b.accepted.data(), b.count}, b.taken, s.have});
    offering_.push_back(&s);
  }
  boundary_ = controller.serve(offers_, boundary_);
  std::int64_t taken = 0;
  left_ = false;
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    Batch& b = offering_[i]->batch;
    taken += static_cast<std::int64_t>(offers_[i].taken - b.taken);
    for (; b.taken < offers_[i].taken; ++b.taken) {
      std::int64_t& accepted = results_.accept_tick[b.row[b.taken]];
      const std::int64_t tick = b.accepted[b.taken];
      if (accepted < 0 || tick < accepted) accepted = tick;  // a row's bursts may be those of several streams
      if (recording_.on) recording_.accepted(place_of(*offering_[i]), b.requests[b.taken], b.arrive[b.taken], tick);
    }
    left_ = left_ || !b.all_taken() || offering_[i]->have;
  }
  bytes_ += taken * config_.access_bytes;
  if (taken == 0 && controller.completions.empty() && controller.next_event() == kNeverTick) stands_still();
  collect();
  serving_ = left_ && serves();
  if (!serving_) {
    for (Stream& s : streams_) put_back(s);
    offer(boundary_);
    if (!skipping_) return taken + 1;
    at_boundary(boundary_);
    serving_ = left_ && serves();
  } else if (recording_.on && !streams_.front().have && streams_.front().batch.all_taken()) {
    abandon_recording();
  }
  return taken + 1;
}

void Replay::collect() {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  if (controller.completions.empty() && controller.commands.empty()) return;
  if (buffer_.slots > 0) {
    for (const Completion& c : controller.completions) {
      if (c.op == Op::read) returns_[c.pc].add(c.done_tick + buffer_.ticks, buffer_.slots);
    }
  }
  if (!map_ && !recording_.on) {
    for (const Completion& c : controller.completions) {  // one burst a row
      const std::uint32_t row = row_of(c.tag);
      results_.issue_tick[row] = c.issue_tick;
      results_.done_tick[row] = c.done_tick;
      results_.row_result[row] = static_cast<std::uint8_t>(c.row_result);
      last_done_ = std::max(last_done_, c.done_tick);
    }
    finished_ += static_cast<std::int64_t>(controller.completions.size());
  } else {
    for (const Completion& c : controller.completions) finish(c);
  }
  controller.completions.clear();
  for (const IssuedCommand& i : controller.commands) commands_.push_back({now_channel_, i});
  controller.commands.clear();
}

// The row of the table that a burst belongs to, in a table of addresses.
std::uint32_t Replay::span_of(std::uint64_t tag) const {
  const Stream& s = streams_[streams_.size() > 1 ? tag & 1 : 0];
  const auto ordinal = static_cast<std::int64_t>(tag >> 1);
  if (ordinal >= s.spans.back().first) return s.spans.back().row;
  const auto behind = std::upper_bound(s.spans.begin(), s.spans.end(), ordinal,
                                       [](std::int64_t x, const Span& span) { return x < span.first; });
  return std::prev(behind)->row;
}

void Replay::finish(const Completion& c) {
  const std::uint32_t row = row_of(c.tag);
  std::int64_t& issued = results_.issue_tick[row];
  if (issued < 0 || c.issue_tick < issued) {
    issued = c.issue_tick;
    results_.row_result[row] = static_cast<std::uint8_t>(c.row_result);
  }
  results_.done_tick[row] = std::max(results_.done_tick[row], c.done_tick);
  last_done_ = std::max(last_done_, c.done_tick);
  ++finished_;
  if (recording_.on) recording_.finished(c);
}

// Gives back the slots that are free before a tick.
inline void Replay::give_back(Channel& controller, std::int64_t before) {
  for (std::size_t pc = 0; pc < returns_.size(); ++pc) {
    Returns& r = returns_[pc];
    for (; r.next < before; r.drop(buffer_.slots)) controller.release_slot(static_cast<int>(pc), r.next);
  }
}

// One event of a channel whose reads go through a buffer. A slot given back is seen from the next tick on, and by
// nobody before the buffer is full.
void Replay::step_with_buffer() {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  while (true) {
    const std::int64_t next = controller.next_event();
    std::int64_t tick = std::min(next, arrival_);
    std::int64_t given = kNeverTick;
    for (const Returns& r : returns_) {
      given = std::min(given, r.next);
      if (r.held == buffer_.slots) tick = std::min(tick, r.next);
    }
    if (tick == kNeverTick) stands_still();
    if (given < tick) give_back(controller, tick);
    if (next == tick) controller.advance(tick);
    if (given <= tick) give_back(controller, tick + 1);
    if (!controller.completions.empty() || tick == arrival_ || config_.slot_freed_at_act) {
      offer(tick);
      return;
    }
    if (next == tick) {
      if (!controller.commands.empty()) collect();
      return;
    }
  }
}

bool Replay::run(std::int64_t events) {
  while (events > 0) {
    if (now_channel_ < 0) {
      if (channels_ == 0) return true;
      now_channel_ = 0;
      closing_ = false;
      start_channel();
    }
    Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
    if (closing_) {  // refreshes and row closings due before the whole run ends
      const std::int64_t next = controller.next_event();
      if (next > last_done_) {
        if (++now_channel_ == channels_) {
          now_channel_ = channels_ - 1;
          return true;
        }
        continue;
      }
      controller.advance(next);
      collect();
      --events;
      continue;
    }
    if (!left_ && controller.queued() == 0) {
      if (++now_channel_ == channels_) {
        now_channel_ = 0;
        closing_ = true;
      } else {
        start_channel();
      }
      continue;
    }
    if (serving_) {
      events -= serve();
      continue;
    }
    if (event_by_event_) {
      step_with_buffer();
      --events;
      continue;
    }
    if (resume_at_ >= 0) {
      at_boundary(std::exchange(resume_at_, -1));
      events -= kEventsOfRepeating;
      continue;
    }
    // where no request is held back a completion changes nothing but the results
    const bool stops = blocked_ || skipping_ || arrival_ == kNeverTick || config_.slot_freed_at_act;
    const std::int64_t next = controller.advance_through(arrival_, stops);
    --events;
    if (next == kNeverTick && arrival_ == kNeverTick) stands_still();
    if (next != kNeverTick) {
      // a queue gets room when a request leaves it: with a completion, or at its ACT
      if (!controller.completions.empty() || next == arrival_ || config_.slot_freed_at_act) {
        offer(next);
        if (skipping_) at_boundary(next);
      } else if (!controller.commands.empty()) {
        collect();
      }
    } else {
      const std::int64_t tick = arrival_;
      offer(tick);
      if (skipping_) at_boundary(tick);
    }
    if (skipping_ && left_ && serves()) serving_ = true;
  }
  return false;
}

}  // namespace cosim::mem
