#include "mem/controller.hpp"

#include <algorithm>
#include <stdexcept>

#include "mem/bank_scan.hpp"

namespace cosim::mem {

namespace {

const ChannelConfig& checked(const ChannelConfig& config) {
  const std::string problems = config.problems();
  if (!problems.empty()) throw std::invalid_argument(problems);
  return config;
}

}  // namespace

Controller::Controller(const ChannelConfig& config)
    : config_(checked(config)), fault_(sim::fault_from_environment()), rules_(config), kernels_(&bank_kernels()) {
  banks_ = config.banks();
  all_banks_ = banks_ == kMaxBanks ? ~Mask{0} : bit(banks_) - 1;
  for (std::size_t c = 0; c < edge_.size(); ++c) edge_[c] = config.rising_edge_only[c] != 0 ? 1 : 0;
  unattended_ = config.refresh == Refresh::none && config.page_policy == PagePolicy::open;
  bus_.fill(kLongAgo);
  pcs_.resize(static_cast<std::size_t>(config.pseudo_channels));
  for (PseudoChannel& p : pcs_) {
    for (PerBank<std::int32_t>& e : p.e.banks) e.fill(kLongAgo);
    p.e.own.fill(kLongAgo);
    p.e.act_ring.fill(kLongAgo);
    p.return_slots = kFar;
    p.open_row.fill(-1);
    p.active_node.fill(kNil);
    for (BankLists& l : p.lists) {
      l.head.fill(kNil);
      l.tail.fill(kNil);
      l.hit_node.fill(kNil);
    }
    p.refresh_at = config.refresh_interval;
  }
  refresh_at_ = config.refresh_interval;
  note_refreshes();
  queues_.resize(config.shared_queues ? 1 : pcs_.size());
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) pcs_[pc].queues = queues_of(static_cast<int>(pc));
  // an activated request may have left its queue: then every bank can hold one more
  const std::size_t extra = config.slot_freed_at_act ? pcs_.size() * static_cast<std::size_t>(banks_) : 0;
  const std::size_t per_queue = static_cast<std::size_t>(config.read_queue + config.write_queue);
  nodes_.resize(queues_.size() * per_queue + extra);
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    nodes_[n].next = free_;
    free_ = static_cast<std::uint16_t>(n);
  }
  bank_counters_.resize(pcs_.size() * static_cast<std::size_t>(banks_));
  recent_.resize(kRecent);
}

void Controller::advance(std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  if (unsettled_ != 0) {
    for (Queues& q : queues_) settle_before(q, t - 1);
  }
  now_ = column_from_ = row_from_ = t;
  if (t < quiet_until_ && quiet() && one_is_busy()) {
    if (busy_ != 0) {
      const int pc = lowest(busy_);
      PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
      if (p.column.tick < t) find_column(p);
      if (p.row.tick < t) find_row(p);
      issue_quietly<false>(p, pc, t);
    }
  } else {
    if (config_.refresh != Refresh::none) push_refreshes(t);
    if (!calm()) forget();
    if (config_.shared_command_bus) {
      one_slot(t);
    } else {
      column_slot(t);
      column_from_ = t + 1;
      row_slot(t);
    }
    if (!calm()) forget();
  }
  column_from_ = row_from_ = t + 1;
}

std::int64_t Controller::serve(std::span<Offers> offers, std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  reach(relative(tick));
  const bool is_plain = plain();
  std::int64_t arrival = 0;
  bool left = take_arrived(offers, relative(tick), arrival);
  for (int events = kEventsAtOnce; events > 0 && left; --events) {
    if (now_ > kRebaseAt) rebase(absolute(now_));
    if (quiet() && busy_ != 0 && (one_is_busy() || !config_.shared_command_bus)) {
      if (one_is_busy()) {
        left = is_plain ? serve_one<true>(offers, arrival) : serve_one<false>(offers, arrival);
      } else {
        left = is_plain ? serve_two<true>(offers, arrival) : serve_two<false>(offers, arrival);
      }
      if (!left) break;
    }
    const std::int64_t next = next_event();
    if (next == kNeverTick && arrival == kNeverTick) break;
    tick = std::min(next, arrival);
    if (tick - base_ > kRebaseAt) rebase(tick);
    if (next <= arrival) {
      advance(next);
    } else {
      reach(relative(tick));
    }
    left = take_arrived(offers, relative(tick), arrival);
  }
  return absolute(now_);
}

std::int64_t Controller::next_event() const {
  std::int32_t t = 0;
  if (unattended_ && quiet() && one_is_busy()) {
    if (busy_ == 0) return kNeverTick;
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(lowest(busy_))];
    if (p.column.tick < column_from_ || p.row.tick < row_from_) find_next(p);
    t = std::min(p.column.tick, p.row.tick);
  } else {
    t = next_tick(false);
  }
  return t == kFar ? kNeverTick : absolute(t);
}

std::int64_t Controller::next_progress() const {
  const std::int32_t t = next_tick(true);
  return t == kFar ? kNeverTick : absolute(t);
}

}  // namespace cosim::mem
