// What a controller reports about itself: counters, conservation, who waits for what.
#include <algorithm>
#include <bit>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

std::int64_t Controller::queued() const {
  std::int64_t n = 0;
  for (const Queues& q : queues_) n += q.count[0] + q.count[1];
  if (config_.slot_freed_at_act) {
    for (const PseudoChannel& p : pcs_) n += std::popcount(p.active_rd) + std::popcount(p.active_wr);
  }
  return n;
}

int Controller::queued(Op op, int pc) const {
  return queues_[static_cast<std::size_t>(queues_of(pc))].count[static_cast<std::size_t>(index(op))];
}

BankCounters Controller::bank_counters(int pc, int bank, std::int64_t tick) const {
  BankCounters c = bank_counters_[static_cast<std::size_t>(pc * config_.banks() + bank)];
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  if ((p.open & bit(bank)) != 0) c.busy_ticks += tick - absolute(p.opened_at[static_cast<std::size_t>(bank)]);
  return c;
}

std::int64_t Controller::any_open_ticks(std::int64_t tick) const {
  std::int64_t total = counters_.any_open_ticks;
  for (const PseudoChannel& p : pcs_) {
    if (p.open != 0) total += tick - absolute(p.any_open_since);
  }
  return total;
}

void Controller::last_commands(std::int64_t count, std::vector<IssuedCommand>& out) const {
  for (std::int64_t i = recorded_ - count; i < recorded_; ++i) {
    out.push_back(recent_[static_cast<std::size_t>(i & (kRecent - 1))]);
  }
}

std::vector<IssuedCommand> Controller::recent_commands() const {
  std::vector<IssuedCommand> out;
  last_commands(std::min(recorded_, std::int64_t{kRecent}), out);
  return out;
}

std::string Controller::verify_conservation() const {
  std::string out;
  std::int64_t waiting = 0;
  std::vector<std::int64_t> found(queues_.size() * 2, 0);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    const auto q = static_cast<std::size_t>(queues_of(static_cast<int>(pc)));
    for (std::size_t op = 0; op < 2; ++op) {
      for (int b = 0; b < config_.banks(); ++b) {
        for (std::uint16_t n = p.lists[op].head[static_cast<std::size_t>(b)]; n != kNil; n = nodes_[n].next) {
          ++waiting;
          ++found[q * 2 + op];
        }
      }
    }
    for (std::uint16_t n = p.forward_head; n != kNil; n = nodes_[n].next) {
      ++waiting;
      ++found[q * 2];
    }
    waiting += std::popcount(p.active_rd) + std::popcount(p.active_wr);
    if (!config_.slot_freed_at_act) {
      found[q * 2] += std::popcount(p.active_rd);
      found[q * 2 + 1] += std::popcount(p.active_wr);
    }
  }
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    for (std::size_t op = 0; op < 2; ++op) {
      if (found[q * 2 + op] != queues_[q].count[op]) {
        out += std::string(op == 0 ? "read" : "write") + " queue " + std::to_string(q) + " counts " +
               std::to_string(queues_[q].count[op]) + " requests but holds " + std::to_string(found[q * 2 + op]) + "\n";
      }
    }
  }
  const std::int64_t accounted = counters_.served_reads + counters_.served_writes + counters_.forwarded +
                                 counters_.coalesced + counters_.cancelled + waiting;
  if (accounted != counters_.asked) {
    out += "asked " + std::to_string(counters_.asked) + " requests, but served " +
           std::to_string(counters_.served_reads + counters_.served_writes) + " + forwarded " +
           std::to_string(counters_.forwarded) + " + absorbed " + std::to_string(counters_.coalesced) +
           " + cancelled " + std::to_string(counters_.cancelled) + " + waiting " + std::to_string(waiting) + " = " +
           std::to_string(accounted) + "\n";
  }
  std::int64_t classified = 0;
  for (const BankCounters& c : bank_counters_) classified += c.row_hits + c.row_misses + c.row_conflicts;
  const std::int64_t served = counters_.served_reads + counters_.served_writes;
  if (classified < served || classified > served + waiting + counters_.cancelled) {
    out += "row hits + misses + conflicts are " + std::to_string(classified) + " for " + std::to_string(served) +
           " served requests\n";
  }
  return out;
}

std::string Controller::describe_wait() const {
  std::string out;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    const Queues& q = queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))];
    if (q.count[0] + q.count[1] == 0 && p.active_rd == 0 && p.active_wr == 0) continue;
    out += "pseudo-channel " + std::to_string(pc) + ": " + std::to_string(q.count[0]) + " reads and " +
           std::to_string(q.count[1]) + " writes queued, " + std::to_string(std::popcount(p.active_rd | p.active_wr)) +
           " banks activated for a request";
    if (p.return_slots == 0) out += ", reads wait for a free read-return slot";
    if (!pending_.empty()) out += ", a refresh is pending";
    if (refresh_wanted(p)) out += ", a refresh waits for its banks";
    out += "\n";
  }
  return out;
}

}  // namespace cosim::mem
