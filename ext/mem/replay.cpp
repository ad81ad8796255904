#include "mem/replay.hpp"

#include <algorithm>
#include <stdexcept>

namespace cosim::mem {

Replay::Replay(const ChannelConfig& config, int channels, RequestTable table, std::optional<AddressMap> map)
    : config_(config), channels_(channels), table_(std::move(table)), map_(std::move(map)) {
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

void Replay::start_channel() {
  streams_.clear();
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
    }
    fetch(s);
    streams_.push_back(std::move(s));
  }
}

// Finds the next burst of a stream.
void Replay::fetch(Stream& s) {
  s.have = false;
  if (!map_) {
    if (s.at == s.rows.size()) return;
    const std::size_t i = s.rows[s.at++];
    s.next.op = static_cast<Op>(table_.op[i]);
    s.next.pc = table_.pseudo_channel[i];
    s.next.stack_id = table_.stack_id[i];
    s.next.bg = table_.bank_group[i];
    s.next.bank = table_.bank[i];
    s.next.row = table_.row[i];
    s.next.column = table_.column[i];
    s.next.tag = i;
    s.arrive = table_.arrive_tick[i];
    s.have = true;
    return;
  }
  const auto burst = static_cast<std::uint64_t>(map_->access_bytes());
  while (true) {
    if (!s.in_row) {
      if (s.at == table_.rows()) return;
      s.address = static_cast<std::uint64_t>(table_.address[s.at]);
      s.end = s.address + static_cast<std::uint64_t>(table_.size_bytes[s.at]);
      s.in_row = true;
    }
    const std::uint64_t found =
        s.select_mask != 0 ? AddressMap::next_match(s.address, s.select_mask, s.select_value) : s.address;
    if (found >= s.end) {
      s.in_row = false;
      ++s.at;
      continue;
    }
    // what next_match skipped over leaves the offset within a burst untouched: addresses are whole bursts
    s.address = found + burst;
    const Coordinate c = map_->decode(found);
    if (c[Field::channel] != now_channel_ || (s.pc >= 0 && c[Field::pseudo_channel] != s.pc)) continue;
    s.next.op = static_cast<Op>(table_.op[s.at]);
    s.next.pc = static_cast<std::uint8_t>(c[Field::pseudo_channel]);
    s.next.stack_id = static_cast<std::uint8_t>(c[Field::stack_id]);
    s.next.bg = static_cast<std::uint8_t>(c[Field::bank_group]);
    s.next.bank = static_cast<std::uint8_t>(c[Field::bank]);
    s.next.row = static_cast<std::int32_t>(c[Field::row]);
    s.next.column = static_cast<std::int32_t>(c[Field::column]);
    s.next.tag = s.at;
    s.arrive = table_.arrive_tick[s.at];
    s.have = true;
    return;
  }
}

void Replay::offer(std::int64_t boundary) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  arrival_ = kNeverTick;
  left_ = false;
  for (Stream& s : streams_) {
    // what has been refused stays refused until its queue has room
    if (s.blocked && controller.can_accept(s.next.op, s.next.pc)) s.blocked = false;
    while (s.have && !s.blocked && s.arrive <= boundary) {
      if (!controller.try_accept(s.next, boundary)) {
        s.blocked = true;
        break;
      }
      std::int64_t& accepted = results_.accept_tick[s.next.tag];
      if (accepted < 0 || boundary < accepted) accepted = boundary;
      bytes_ += config_.access_bytes;
      fetch(s);
    }
    if (!s.have) continue;
    left_ = true;
    if (!s.blocked) arrival_ = std::min(arrival_, s.arrive);
  }
  collect();
}

void Replay::collect() {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  if (controller.completions.empty() && controller.commands.empty()) return;
  for (const Completion& c : controller.completions) {
    std::int64_t& issued = results_.issue_tick[c.tag];
    if (issued < 0 || c.issue_tick < issued) {
      issued = c.issue_tick;
      results_.row_result[c.tag] = static_cast<std::uint8_t>(c.row_result);
    }
    results_.done_tick[c.tag] = std::max(results_.done_tick[c.tag], c.done_tick);
    last_done_ = std::max(last_done_, c.done_tick);
    ++finished_;
  }
  controller.completions.clear();
  for (const IssuedCommand& i : controller.commands) commands_.push_back({now_channel_, i});
  controller.commands.clear();
}

bool Replay::run(std::int64_t events) {
  while (events > 0) {
    if (now_channel_ < 0) {
      if (channels_ == 0) return true;
      now_channel_ = 0;
      closing_ = false;
      start_channel();
      offer(0);
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
        offer(0);
      }
      continue;
    }
    const std::int64_t next = controller.next_event();
    if (next == kNeverTick && arrival_ == kNeverTick) {
      throw std::logic_error("memory channel " + std::to_string(now_channel_) + " stands still:\n" +
                             controller.describe_wait());
    }
    if (next <= arrival_) {
      controller.advance(next);
      --events;
      // a queue gets room when a request leaves it: with a completion, or at its ACT
      if (!controller.completions.empty() || next == arrival_ || config_.slot_freed_at_act) {
        offer(next);
      } else if (!controller.commands.empty()) {
        collect();
      }
    } else {
      offer(arrival_);
      --events;
    }
  }
  return false;
}

}  // namespace cosim::mem
