#include "mem/sram.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/canonical.hpp"

namespace cosim::mem {

Sram::Sram(const ChannelConfig& config) : config_(config), fault_(sim::fault_from_environment()) {
  const std::string problems = config.problems();
  if (!problems.empty()) throw std::invalid_argument(problems);
  if (config.kind != MemoryKind::sram) throw std::invalid_argument("this configuration is not one of SRAM");
  const auto banks = static_cast<std::size_t>(config.banks());
  banks_.resize(banks);
  ports_.resize(banks * static_cast<std::size_t>(config.ports));
  bank_counters_.resize(banks);
  recent_.resize(kRecent);
}

bool Sram::can_accept(Op op, int) const {
  return waiting_[static_cast<std::size_t>(index(op))] < (op == Op::read ? config_.read_queue : config_.write_queue);
}

bool Sram::try_accept(const Request& request, std::int64_t tick) {
  if (!can_accept(request.op, request.pc)) return false;
  accept(request, tick);
  return true;
}

void Sram::accept(const Request& r, std::int64_t tick) {
  now_ = std::max(now_, tick);
  ++counters_.asked;
  if constexpr (sim::kFaultsCompiled) {
    if (fault_ == sim::Fault::lose_request && counters_.asked % 97 == 0) return;
  }
  Waiting w;
  w.seen_at = tick + 1;
  w.tag = r.tag;
  w.row = r.row;
  w.column = r.column;
  w.op = r.op;
  w.message_class = r.message_class;
  w.priority = r.priority;
  auto& queue = banks_[static_cast<std::size_t>(r.bg * config_.banks_per_group + r.bank)];
  const auto before = std::find_if(queue.begin(), queue.end(), [&](const Waiting& x) {
    return x.priority < w.priority && !(x.row == w.row && x.column == w.column);
  });
  queue.insert(before, w);
  ++waiting_[static_cast<std::size_t>(index(r.op))];
  if (r.op == Op::read && return_slots_ == 0 && blocked_since_ < 0) blocked_since_ = tick;
}

std::ptrdiff_t Sram::choose(std::size_t bank) const {
  const auto& queue = banks_[bank];
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (queue[i].op == Op::read) {
      if (return_slots_ != 0) return static_cast<std::ptrdiff_t>(i);
      continue;
    }
    const bool waits_for_read =
        std::any_of(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](auto& x) { return x.op == Op::read && x.row == queue[i].row && x.column == queue[i].column; });
    if (!waits_for_read) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

std::size_t Sram::first_port(std::size_t bank) const {
  const auto ports = static_cast<std::size_t>(config_.ports);
  std::size_t best = bank * ports;
  for (std::size_t p = best + 1; p < (bank + 1) * ports; ++p) {
    const Port& a = ports_[p];
    const Port& b = ports_[best];
    if (a.tick < b.tick || (a.tick == b.tick && a.bytes < b.bytes)) best = p;
  }
  return best;
}

std::int64_t Sram::next_event() const {
  std::int64_t least = kNeverTick;
  for (std::size_t bank = 0; bank < banks_.size(); ++bank) {
    if (banks_[bank].empty()) continue;
    const std::ptrdiff_t at = choose(bank);
    if (at < 0) continue;
    const Waiting& w = banks_[bank][static_cast<std::size_t>(at)];
    least = std::min(least, std::max({now_ + 1, w.seen_at, ports_[first_port(bank)].tick}));
  }
  return least;
}

void Sram::start(std::size_t bank, std::size_t at, std::size_t port, std::int64_t tick) {
  const Waiting w = banks_[bank][at];
  banks_[bank].erase(banks_[bank].begin() + static_cast<std::ptrdiff_t>(at));
  --waiting_[static_cast<std::size_t>(index(w.op))];
  Port& p = ports_[port];
  const std::int64_t end = (p.tick < tick ? 0 : p.bytes) + std::int64_t{config_.access_bytes};  // bytes into `tick`
  const std::int64_t last = tick + (end - 1) / config_.port_bytes;
  p.tick = tick + end / config_.port_bytes;
  p.bytes = static_cast<std::int32_t>(end % config_.port_bytes);
  BankCounters& b = bank_counters_[bank];
  b.bytes += config_.access_bytes;
  const bool read = w.op == Op::read;
  ++(read ? b.rd : b.wr);
  ++(read ? counters_.served_reads : counters_.served_writes);
  if (read && return_slots_ != kNoLimit) --return_slots_;
  Completion c;
  c.tag = w.tag;
  c.issue_tick = tick;
  c.done_tick = last + (read ? config_.read_latency : config_.write_latency);
  c.op = w.op;
  c.message_class = w.message_class;
  completions.push_back(c);
  IssuedCommand i;
  i.tick = tick;
  i.row = w.row;
  i.column = w.column;
  i.command = read ? Command::RD : Command::WR;
  i.bank = static_cast<std::int16_t>(bank);
  recent_[static_cast<std::size_t>(recorded_++) % kRecent] = i;
  if (config_.log_commands) commands.push_back(i);
}

void Sram::advance(std::int64_t tick) {
  now_ = tick;
  for (std::size_t bank = 0; bank < banks_.size(); ++bank) {
    while (!banks_[bank].empty()) {
      const std::ptrdiff_t at = choose(bank);
      if (at < 0 || banks_[bank][static_cast<std::size_t>(at)].seen_at > tick) break;
      const std::size_t port = first_port(bank);
      if (ports_[port].tick > tick) break;
      start(bank, static_cast<std::size_t>(at), port, tick);
    }
  }
  if (return_slots_ == 0 && waiting_[0] > 0 && blocked_since_ < 0) blocked_since_ = tick;
}

void Sram::set_return_slots(int, int slots) { return_slots_ = slots; }

void Sram::release_slot(int, std::int64_t tick) {
  now_ = std::max(now_, tick);
  ++return_slots_;
  if (blocked_since_ < 0) return;
  counters_.blocked_by_return_ticks += tick - blocked_since_;
  blocked_since_ = -1;
}

std::int64_t Sram::cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) {
  now_ = std::max(now_, tick);
  std::int64_t taken_back = 0;
  for (auto& queue : banks_) {
    taken_back += static_cast<std::int64_t>(std::erase_if(queue, [&](const Waiting& w) {
      const bool wanted = w.tag >= first_tag && w.tag <= last_tag;
      if (wanted) --waiting_[static_cast<std::size_t>(index(w.op))];
      return wanted;
    }));
  }
  counters_.cancelled += taken_back;
  if (blocked_since_ >= 0 && waiting_[0] == 0) {
    counters_.blocked_by_return_ticks += tick - blocked_since_;
    blocked_since_ = -1;
  }
  return taken_back;
}

BankCounters Sram::bank_counters(int, int bank, std::int64_t) const {
  BankCounters b = bank_counters_[static_cast<std::size_t>(bank)];
  b.busy_ticks = (b.bytes + config_.port_bytes - 1) / config_.port_bytes;
  return b;
}

std::vector<IssuedCommand> Sram::recent_commands() const {
  std::vector<IssuedCommand> out;
  for (std::int64_t i = std::max<std::int64_t>(0, recorded_ - kRecent); i < recorded_; ++i) {
    out.push_back(recent_[static_cast<std::size_t>(i % kRecent)]);
  }
  return out;
}

std::string Sram::verify_conservation() const {
  std::array<std::int32_t, 2> found{};
  for (const auto& queue : banks_) {
    for (const Waiting& w : queue) ++found[static_cast<std::size_t>(index(w.op))];
  }
  std::string out;
  if (found != waiting_) {
    out += "queues count " + std::to_string(waiting_[0]) + " reads and " + std::to_string(waiting_[1]) +
           " writes but hold " + std::to_string(found[0]) + " and " + std::to_string(found[1]) + "\n";
  }
  const std::int64_t served = counters_.served_reads + counters_.served_writes;
  if (served + counters_.cancelled + found[0] + found[1] != counters_.asked) {
    out += "asked " + std::to_string(counters_.asked) + " requests, but served " + std::to_string(served) +
           " + cancelled " + std::to_string(counters_.cancelled) + " + waiting " + std::to_string(found[0] + found[1]) +
           "\n";
  }
  return out;
}

std::string Sram::describe_wait() const {
  if (queued() == 0) return {};
  std::string out = std::to_string(waiting_[0]) + " reads and " + std::to_string(waiting_[1]) + " writes queued";
  if (return_slots_ == 0) out += ", reads wait for a free read-return slot";
  return out + "\n";
}

void Sram::normalise(std::int64_t tick) {
  if (blocked_since_ >= 0) {
    counters_.blocked_by_return_ticks += tick - blocked_since_;
    blocked_since_ = tick;
  }
  for (Port& p : ports_) {
    if (p.tick >= tick) continue;
    p.tick = tick;
    p.bytes = 0;
  }
  for (auto& queue : banks_) {
    for (Waiting& w : queue) w.seen_at = std::max(w.seen_at, tick);
  }
  now_ = std::max(now_, tick);
}

void Sram::visit(sim::Visitor& v) {
  using sim::Kind;
  for (auto& queue : banks_) v.vector(Kind::stamp, queue);
  v.vector(Kind::stamp, ports_);
  v.array(Kind::state, waiting_.data(), waiting_.size());
  v.value(Kind::state, return_slots_);
  v.value(Kind::stamp, now_);
  v.value(Kind::stamp, blocked_since_);
  v.value(Kind::counter, counters_);
  v.vector(Kind::counter, bank_counters_);
  v.vector(Kind::counter, recent_);
  v.value(Kind::counter, recorded_);
  v.vector(Kind::state, completions);
  v.vector(Kind::state, commands);
}

void Sram::walk(sim::Canonical& c, const sim::Present& present, RequestNames& names) {
  const std::int64_t tick = present.now;
  const std::int64_t shift = present.shift;
  c.held(now_, present);
  c.same(completions.size());
  c.same(commands.size());
  c.same(return_slots_);
  c.same(blocked_since_ >= 0);
  if (blocked_since_ >= 0) c.held(blocked_since_, present);
  for (auto& queue : banks_) {
    c.same(queue.size());
    for (Waiting& w : queue) {
      c.same(std::max<std::int64_t>(w.seen_at - tick, 0));
      c.move(w.seen_at, shift);
      names.row(c, w.row);
      c.same(w.column);
      c.same(w.op);
      c.same(w.message_class);
      c.same(w.priority);
      names.tag(c, w.op, w.tag);
      if (c.differs()) return;
    }
  }
  for (Port& p : ports_) {  // the past is all one
    if (!c.lacks(sim::Part::sram)) c.same(std::max<std::int64_t>(p.tick - tick, 0));
    c.same(p.tick >= tick ? p.bytes : 0);
    c.move(p.tick, shift);
  }
  for (const std::int32_t count : waiting_) c.same(count);
  for (BankCounters& b : bank_counters_) {
    c.grows(b.bytes);
    c.grows(b.rd);
    c.grows(b.wr);
  }
  for (std::int64_t* count : {&counters_.asked, &counters_.served_reads, &counters_.served_writes, &counters_.cancelled,
                              &counters_.blocked_by_return_ticks}) {
    c.grows(*count);
  }
}

}  // namespace cosim::mem
