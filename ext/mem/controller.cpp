#include "mem/controller.hpp"

#include <algorithm>
#include <stdexcept>

#include "mem/bank_scan.hpp"

namespace cosim::mem {

Controller::Controller(const ChannelConfig& config) : config_(config), fault_(sim::fault_from_environment()) {
  const std::string problems = config.problems();
  if (!problems.empty()) throw std::invalid_argument(problems);
  // RDA and WRA wait like RD and WR, and several rules of one pair and scope act as the longest
  const auto waits_like = [](Command c) {
    return c == Command::RDA ? Command::RD : c == Command::WRA ? Command::WR : c;
  };
  const auto banks_of = [](Command c) -> PerBank<std::int32_t> PseudoChannel::* {
    switch (c) {
      case Command::ACT:
        return &PseudoChannel::act;
      case Command::PREpb:
        return &PseudoChannel::pre;
      case Command::RD:
        return &PseudoChannel::rd;
      case Command::WR:
        return &PseudoChannel::wr;
      default:
        return &PseudoChannel::ref;
    }
  };
  for (const Rule& r : config.rules) {
    if (r.window != 1) {
      act_window_ = r.window;
      act_window_ticks_ = r.value;
      continue;
    }
    if (r.value == 0) continue;
    const Command to = waits_like(r.to);
    auto& list = effects_[static_cast<std::size_t>(index(r.from))].by_scope[static_cast<std::size_t>(r.scope)];
    const auto same = std::find_if(list.begin(), list.end(), [&](const Effect& e) { return e.to == index(to); });
    if (same == list.end()) {
      list.push_back({index(to), r.value, banks_of(to)});
    } else {
      same->value = std::max(same->value, r.value);
    }
  }
  for (const Effect& e : effects_[static_cast<std::size_t>(index(Command::ACT))]
                             .by_scope[static_cast<std::size_t>(Scope::pseudo_channel)]) {
    if (e.to == index(Command::REFpb)) act_to_refresh_ = e.value;
  }
  const int banks = config.banks();
  all_banks_ = banks == kMaxBanks ? ~Mask{0} : bit(banks) - 1;
  bus_.fill(kLongAgo);
  pcs_.resize(static_cast<std::size_t>(config.pseudo_channels));
  for (PseudoChannel& p : pcs_) {
    for (auto* e : {&p.act, &p.pre, &p.rd, &p.wr, &p.ref}) e->fill(kLongAgo);
    p.own.fill(kLongAgo);
    p.act_ring.fill(kLongAgo);
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
  queues_.resize(config.shared_queues ? 1 : pcs_.size());
  // an activated request may have left its queue: then every bank can hold one more
  const std::size_t extra = config.slot_freed_at_act ? pcs_.size() * static_cast<std::size_t>(banks) : 0;
  const std::size_t per_queue = static_cast<std::size_t>(config.read_queue + config.write_queue);
  nodes_.resize(queues_.size() * per_queue + extra);
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    nodes_[n].next = free_;
    free_ = static_cast<std::uint16_t>(n);
  }
  bank_counters_.resize(pcs_.size() * static_cast<std::size_t>(banks));
  recent_.resize(kRecent);
}

void Controller::advance(std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  for (Queues& q : queues_) settle_before(q, t - 1);
  now_ = t;
  if (config_.refresh != Refresh::none) push_refreshes(t);
  if (config_.shared_command_bus) {
    one_slot(t);
  } else {
    column_slot(t);
    row_slot(t);
  }
  tighten_bounds(t);
}

std::int64_t Controller::next_event() const {
  const std::int32_t t = next_tick(false);
  return t == kFar ? kNeverTick : absolute(t);
}

std::int64_t Controller::next_progress() const {
  const std::int32_t t = next_tick(true);
  return t == kFar ? kNeverTick : absolute(t);
}

}  // namespace cosim::mem
