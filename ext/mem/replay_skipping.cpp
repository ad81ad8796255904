// Macro-steps of a replay: where they begin and end, whether one comes again, what it leaves behind.
#include <algorithm>
#include <array>
#include <utility>

#include "mem/replay.hpp"

namespace cosim::mem {
namespace {

constexpr std::int64_t kLongestPeriod = 1 << 14;  // bursts
constexpr std::int64_t kShortestStep = 32;        // bursts of the first stream in a macro-step, where it has a choice
constexpr std::int64_t kLongestStep = 128;
constexpr std::int64_t kMisses = 1024;  // periods recorded in vain before a stream is left alone ...
constexpr std::int64_t kLeftAlone = 8;  // ... until it is this many times as far
constexpr int kRepeatsAtOnce = 1024;    // so that a run can be interrupted

bool has_row(const IssuedCommand& i) {
  return i.command != Command::PREab && i.command != Command::REFab && i.command != Command::REFpb;
}

bool same_but_bank_and_row(const Request& x, const Request& y) {
  return x.op == y.op && x.pc == y.pc && x.column == y.column;
}

// Equal up to the distance of their rows.
bool alike(const Request& x, const Request& y, std::int32_t rows) {
  return same_but_bank_and_row(x, y) && x.stack_id == y.stack_id && x.bg == y.bg && x.bank == y.bank &&
         y.row - x.row == rows;
}

// Where the banks of a stream's requests are some bursts later, and in what row.
struct Turning {
  std::array<int, kMaxBanks> to{};
  std::array<std::int32_t, kMaxBanks> rows{};

  Turning() { to.fill(-1); }
  // False where the two do not turn as others did.
  bool add(const Request& x, int from, const Request& y, int behind, std::int32_t period_rows) {
    if (!same_but_bank_and_row(x, y)) return false;
    const auto b = static_cast<std::size_t>(from);
    const std::int32_t by = y.row + period_rows - x.row;
    if (to[b] < 0) {
      to[b] = behind;
      rows[b] = by;
    }
    return to[b] == behind && rows[b] == by;
  }
};

}  // namespace

void Replay::Recording::accepted(std::size_t stream, const Request& request, std::int64_t arrive, std::int64_t at) {
  MacroStep::Taken& taken = step.taken[stream];
  ++taken.count;
  waited = waited || arrive > tick;
  taken.accepted.push_back(static_cast<std::int32_t>(at - tick));
  taken.offered.push_back(request);
}

void Replay::Recording::finished(const Completion& c) {
  MacroStep::Finished f;
  f.tag = static_cast<std::int32_t>(static_cast<std::int64_t>(c.tag - origin.tag));
  f.issue = static_cast<std::int32_t>(c.issue_tick - tick);
  f.done = static_cast<std::int32_t>(c.done_tick - tick);
  f.row_result = c.row_result;
  MacroStep::Taken& taken = step.taken[step.taken.size() > 1 ? c.tag & 1 : 0];
  if (taken.finished++ == 0) {
    taken.first_tag = f.tag;
    taken.first_issue = f.issue;
    taken.first_result = f.row_result;
    taken.last_done = f.done;
  }
  taken.first_tag = std::min<std::int64_t>(taken.first_tag, f.tag);
  if (f.issue < taken.first_issue) {
    taken.first_issue = f.issue;
    taken.first_result = f.row_result;
  }
  taken.last_done = std::max(taken.last_done, f.done);
  step.finished.push_back(f);
}

// The bursts after which the requests of a stream come again, but for their row; 0: none are seen to.
std::int64_t Replay::period_from(const Stream& s, std::int64_t tick) const {
  if (!s.have || s.arrive > tick) return 0;
  Cursor behind = s;
  do {
    fetch(s, behind);
    if (!behind.have || behind.arrive > tick || behind.ordinal - s.ordinal > kLongestPeriod) return 0;
  } while (behind.next.row == s.next.row || !alike(s.next, behind.next, behind.next.row - s.next.row));
  const std::int64_t period = behind.ordinal - s.ordinal;
  const std::int32_t rows = behind.next.row - s.next.row;
  Cursor before = s;
  for (std::int64_t i = 0; i < period; ++i) {
    if (!behind.have || behind.arrive > tick || !alike(before.next, behind.next, rows)) return 0;
    fetch(s, before);
    fetch(s, behind);
  }
  return period;
}

void Replay::find_period(std::int64_t tick) {
  const Stream& lead = streams_.front();
  period_ = period_from(lead, tick);
  misses_ = 0;
  boundary_at_ = period_from_ = lead.ordinal;
  look_at_ = std::max(2 * lead.ordinal, lead.ordinal + kLongestPeriod / 4);
  periodic_ = periodic_ || period_ != 0;
  if (period_ != 0) find_layout();
}

std::vector<Request> Replay::bursts_from(const Stream& s, std::int64_t count) const {
  std::vector<Request> all;
  Cursor c = s;
  for (; c.have && count > 0; --count) {
    all.push_back(c.next);
    fetch(s, c);
  }
  return all;
}

// Into how many macro-steps a period is cut, and whether its banks take turns: after fewer bursts the requests come
// again but for the names of banks, and every bank has its turn.
void Replay::find_layout() {
  const std::vector<Request> lead = bursts_from(streams_.front(), period_ + 1);
  const std::int32_t rows = lead.back().row - lead.front().row;
  Layout layout;
  layout.turns = {BankTurn::unturned()};
  layout.bursts = period_;
  for (Stream& s : streams_) s.turns = false;
  const bool alike = controllers_[static_cast<std::size_t>(now_channel_)]->banks_are_alike();
  for (std::int64_t bursts = kShortestStep; alike && 2 * bursts <= period_; ++bursts) {
    if (period_ % bursts == 0 && turns(lead, bursts, rows, layout)) break;
  }
  step_ = layout.bursts;
  for (std::int64_t bursts = kLongestStep; bursts >= kShortestStep; --bursts) {
    if (layout.bursts % bursts != 0) continue;
    step_ = bursts;
    break;
  }
  const auto known = std::find(layouts_.begin(), layouts_.end(), layout);
  layout_ = static_cast<std::size_t>(known - layouts_.begin());
  if (known == layouts_.end()) layouts_.push_back(std::move(layout));
}

// Whether the banks take turns every so many bursts.
bool Replay::turns(const std::vector<Request>& lead, std::int64_t bursts, std::int32_t rows, Layout& layout) {
  Turning turn;
  const auto count = static_cast<std::size_t>(period_);
  const auto by = static_cast<std::size_t>(bursts);
  const auto turned = [&](const std::vector<Request>& r) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool wraps = i + by >= count;
      const Request& behind = r[wraps ? i + by - count : i + by];
      if (!turn.add(r[i], bank_of(r[i]), behind, bank_of(behind), wraps ? rows : 0)) return false;
    }
    return true;
  };
  if (!turned(lead)) return false;
  const int banks = config_.banks();
  const int group = config_.banks_per_group;
  const int stack = group * config_.bank_groups;
  std::array<bool, kMaxBanks> reached{};
  for (int b = 0; b < banks; ++b) {
    const int to = turn.to[static_cast<std::size_t>(b)];
    if (to < 0 || std::exchange(reached[static_cast<std::size_t>(to)], true)) return false;
    const int first_of_group = turn.to[static_cast<std::size_t>(b - b % group)];
    const int first_of_stack = turn.to[static_cast<std::size_t>(b - b % stack)];
    if (to / group != first_of_group / group || to / stack != first_of_stack / stack) return false;
  }
  std::vector<BankTurn> all = {BankTurn::unturned()};
  for (std::int64_t i = 0; i < period_ / bursts; ++i) {
    const BankTurn& now = all.back();
    BankTurn next = BankTurn::unturned();
    for (std::size_t name = 0; name < static_cast<std::size_t>(banks); ++name) {
      const std::size_t from = now.real[name];
      const auto to = static_cast<std::size_t>(turn.to[from]);
      next.real[name] = static_cast<std::uint8_t>(to);
      next.name[to] = static_cast<std::uint8_t>(name);
      next.row[to] = now.row[from] + turn.rows[from];
    }
    all.push_back(next);
  }
  for (std::size_t b = 0; b < static_cast<std::size_t>(banks); ++b) {  // and begin anew with the period
    if (all.back().real[b] != b || all.back().row[b] != rows) return false;
  }
  all.pop_back();
  for (Stream& s : streams_) {
    if (s.bursts_per_dram_row == 0 || !s.have) continue;  // compared request by request
    if (s.bursts_per_dram_row != period_) return false;
    const std::vector<Request> requests = &s == &streams_.front() ? lead : bursts_from(s, period_);
    if (requests.size() < count || !turned(requests)) return false;
    s.turns = true;
  }
  layout.bursts = bursts;
  layout.turns = std::move(all);
  return true;
}

std::size_t Replay::turn_at(std::int64_t ordinal) const {
  const Layout& layout = layouts_[layout_];
  return static_cast<std::size_t>((ordinal - period_from_) / layout.bursts) % layout.turns.size();
}

void Replay::set_bank(Request& r, int bank) const {
  r.bank = static_cast<std::uint8_t>(bank % config_.banks_per_group);
  r.bg = static_cast<std::uint8_t>(bank / config_.banks_per_group % config_.bank_groups);
  r.stack_id = static_cast<std::uint8_t>(bank / config_.banks_per_group / config_.bank_groups);
}

void Replay::to_names(Request& r, const Origin& origin) const {
  const auto bank = static_cast<std::size_t>(bank_of(r));
  set_bank(r, origin.turn->name[bank]);
  r.row -= origin.row + origin.turn->row[bank];
}

void Replay::to_banks(Request& r, const Origin& origin) const {
  const std::size_t bank = origin.turn->real[static_cast<std::size_t>(bank_of(r))];
  set_bank(r, static_cast<int>(bank));
  r.row += origin.row + origin.turn->row[bank];
}

bool Replay::is_named(const Request& named, const Request& r, const Origin& origin) const {
  if (!same_but_bank_and_row(named, r)) return false;
  const std::size_t bank = origin.turn->real[static_cast<std::size_t>(bank_of(named))];
  return bank == static_cast<std::size_t>(bank_of(r)) && r.row == named.row + origin.row + origin.turn->row[bank];
}

// Between two ticks, after requests were offered.
void Replay::at_boundary(std::int64_t tick) {
  const Stream& lead = streams_.front();
  if (!lead.have) {
    abandon_recording();
    return;
  }
  if (period_ == 0) {
    if (lead.ordinal < look_at_) return;
    find_period(tick);
    if (period_ == 0) return;
  }
  if (lead.ordinal < boundary_at_) return;
  const Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  Origin origin = origin_at(tick, lead);
  const bool known = all_wait();
  std::size_t form = MacroSteps::kUnknown;
  if (known) {
    form_.clear();
    if (!controller.canonical(origin, false, form_)) {
      skipping_ = false;  // this channel has no such form
      return;
    }
    form = steps_.find(form_);
  }
  if (recording_.on) {
    if (known && form == MacroSteps::kUnknown) form = steps_.add_form(form_);
    finish_recording(origin, form);
  }
  const int repeats = form == MacroSteps::kUnknown ? 0 : repeat(origin, form);
  boundary_ = origin.tick;
  if (repeats > 0) {
    misses_ = 0;
    arrival_ = kNeverTick;
  }
  if (repeats == kRepeatsAtOnce) {
    boundary_at_ = lead.ordinal;
    resume_at_ = origin.tick;
    return;
  }
  boundary_at_ = lead.ordinal + step_ - (lead.ordinal - period_from_) % step_;
  if (++misses_ > kMisses * (period_ / step_) || !lead.blocked) {
    period_ = 0;
    look_at_ = kLeftAlone * lead.ordinal;
    return;
  }
  if (known && !steps_.full()) {
    if (form == MacroSteps::kUnknown) form = steps_.add_form(form_);
    start_recording(origin, form);
  }
}

// Of the first stream's place in its period.
Origin Replay::origin_at(std::int64_t tick, const Cursor& lead) const {
  const BankTurn& turn = layouts_[layout_].turns[turn_at(lead.ordinal)];
  const std::int32_t row = lead.next.row - turn.row[static_cast<std::size_t>(bank_of(lead.next))];
  return {tick, row, static_cast<std::uint64_t>(lead.ordinal) << 1, &turn};
}

// Else the state of the streams has no place in a macro-step: a request is still to come in.
bool Replay::all_wait() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return !s.have || s.blocked; });
}

void Replay::start_recording(const Origin& origin, std::size_t form) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  const std::int64_t ordinal = streams_.front().ordinal;
  Recording& r = recording_;
  r.on = true;
  r.waited = false;
  r.step = {};
  r.origin = origin;
  r.tick = origin.tick;
  r.next_refresh = controller.next_refresh();
  r.step.start = form;
  r.step.layout = layout_;
  r.step.turn = turn_at(ordinal);
  r.step.in_turn = (ordinal - period_from_) % layouts_[layout_].bursts;
  controller.refresh_form(origin.tick, r.step.start_refresh);
  r.issued = controller.issued();
  r.before = controller.statistics(origin.tick);
  r.most_postponed = controller.restart_most_postponed(0);
  r.step.taken.resize(streams_.size());
  for (MacroStep::Taken& taken : r.step.taken) {
    taken.offered.reserve(static_cast<std::size_t>(2 * step_));
    taken.accepted.reserve(static_cast<std::size_t>(2 * step_));
  }
  r.step.finished.reserve(2 * streams_.size() * static_cast<std::size_t>(step_));
  r.from.assign(streams_.begin(), streams_.end());
}

void Replay::abandon_recording() {
  if (!recording_.on) return;
  recording_.on = false;
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  const std::int64_t most = controller.restart_most_postponed(0);
  (void)controller.restart_most_postponed(std::max(most, recording_.most_postponed));
}

// `form` as the channel has it now.
void Replay::finish_recording(const Origin& end, std::size_t form) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  Recording& r = recording_;
  r.on = false;
  MacroStep& step = r.step;
  Statistics gained = controller.statistics(end.tick);
  const std::int64_t most = gained.channel.most_postponed;
  (void)controller.restart_most_postponed(std::max(most, r.most_postponed));
  if (r.waited || form == MacroSteps::kUnknown) return;
  step.end = form;
  step.ticks = end.tick - r.tick;
  if (r.next_refresh <= end.tick) {
    controller.refresh_form(end.tick, step.end_refresh);
  } else {
    step.start_refresh.clear();
  }
  gained.subtract(r.before);
  gained.channel.most_postponed = most;
  const auto banks = static_cast<std::size_t>(config_.banks());
  const BankTurn& turn = *r.origin.turn;
  step.gained = gained;
  for (std::size_t i = 0; i < gained.banks.size(); ++i) {
    step.gained.banks[i] = gained.banks[i - i % banks + turn.real[i % banks]];
  }
  const std::int64_t issued = controller.issued() - r.issued;
  if (config_.log_commands) {
    const auto first = commands_.end() - static_cast<std::ptrdiff_t>(issued);
    for (auto i = first; i != commands_.end(); ++i) step.commands.push_back(i->command);
  } else {  // what is not recent any more only counts
    const auto kept = std::min(issued, std::int64_t{Channel::kRecent});
    step.commands.reserve(static_cast<std::size_t>(issued));
    step.commands.resize(static_cast<std::size_t>(issued - kept));
    controller.last_commands(kept, step.commands);
  }
  for (IssuedCommand& i : step.commands) {
    i.tick -= r.tick;
    if (i.bank < 0) continue;
    const auto bank = static_cast<std::size_t>(i.bank);
    i.bank = turn.name[bank];
    if (has_row(i)) i.row -= r.origin.row + turn.row[bank];
  }
  for (std::size_t k = 0; k < streams_.size(); ++k) {
    const Stream& s = streams_[k];
    MacroStep::Taken& taken = step.taken[k];
    const Cursor& from = r.from[k];
    if (!from.have) continue;
    if (!s.have) return;
    taken.offered.push_back(s.next);
    if (s.bursts_per_dram_row != 0 && s.row == from.row && taken.count > 0) {
      taken.phase = phase_of(s, from, step.turn);
      taken.distance = distance_of(s, taken.count);
      taken.offered = {taken.offered.front(), taken.offered.back()};
      taken.accepted.resize(1);
    }
    for (Request& request : taken.offered) to_names(request, r.origin);
  }
  steps_.add(std::move(step));
}

// Addresses of one queue pair without the bits that select it: those bits are passed over when one is added to another.
std::uint64_t Replay::distance_of(const Stream& s, std::int64_t bursts) const {
  std::uint64_t left = static_cast<std::uint64_t>(bursts) * static_cast<std::uint64_t>(map_->access_bytes());
  std::uint64_t distance = 0;
  for (int at = 0; left != 0 && at < 64; ++at) {
    const std::uint64_t one = std::uint64_t{1} << at;
    if ((s.select_mask & one) != 0) continue;
    if ((left & 1) != 0) distance |= one;
    left >>= 1;
  }
  return distance;
}

// Where in one row of all banks a burst lies as banks are named at a turn; streams differ in the bits that select them.
std::int64_t Replay::phase_of(const Stream& s, const Cursor& c, std::size_t turn) const {
  std::uint64_t at = c.found & ~s.select_mask;
  if (turn != 0) at -= distance_of(s, static_cast<std::int64_t>(turn) * layouts_[layout_].bursts);
  return static_cast<std::int64_t>(at & ~s.select_mask & (row_stride_ - 1));
}

bool Replay::comes_again(const MacroStep& step, const Origin& origin) {
  const std::int64_t ordinal = streams_.front().ordinal;
  if (step.layout != layout_ || step.in_turn != (ordinal - period_from_) % layouts_[layout_].bursts) return false;
  const std::size_t turn = turn_at(ordinal);
  ends_.clear();
  for (std::size_t k = 0; k < streams_.size(); ++k) {
    const Stream& s = streams_[k];
    const MacroStep::Taken& taken = step.taken[k];
    Cursor& c = ends_.emplace_back(s);
    if (taken.offered.empty()) {
      if (s.have) return false;
      continue;
    }
    if (!s.have || s.arrive > origin.tick) return false;
    if (taken.phase >= 0) {
      if (s.bursts_per_dram_row == 0 || (turn != step.turn && !s.turns)) return false;
      c.found = (((s.found | s.select_mask) + taken.distance) & ~s.select_mask) | s.select_value;
      if (c.found >= s.end || phase_of(s, s, turn) != taken.phase || !is_named(taken.offered.front(), s.next, origin)) {
        return false;
      }
      c.address = c.found + static_cast<std::uint64_t>(map_->access_bytes());
      c.ordinal += taken.count;
      c.next = taken.offered.back();
      to_banks(c.next, origin);
      c.next.tag = s.next.tag + (static_cast<std::uint64_t>(taken.count) << 1);
      continue;
    }
    for (std::size_t i = 0; i < taken.offered.size(); ++i) {
      if (!c.have || c.arrive > origin.tick || !is_named(taken.offered[i], c.next, origin)) return false;
      if (i + 1 < taken.offered.size()) fetch(s, c);
    }
  }
  return true;
}

// The macro-step that comes again, kUnknown where none does; `ends_` are those of its streams.
std::size_t Replay::known_step(const Origin& origin, std::size_t form) {
  const Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  const std::int64_t refresh = controller.next_refresh();
  for (const std::size_t i : steps_.starting_with(form, {})) {
    const MacroStep& step = steps_[i];
    if (step.start != form || !step.start_refresh.empty()) continue;
    if (refresh != kNeverTick && refresh <= origin.tick + step.ticks) continue;
    if (comes_again(step, origin)) return i;
  }
  if (refresh == kNeverTick) return MacroSteps::kUnknown;
  refresh_.clear();
  controller.refresh_form(origin.tick, refresh_);
  for (const std::size_t i : steps_.starting_with(form, refresh_)) {
    const MacroStep& step = steps_[i];
    if (step.start == form && step.start_refresh == refresh_ && comes_again(step, origin)) return i;
  }
  return MacroSteps::kUnknown;
}

// Takes over one macro-step after the other, as long as they are known. Where the channel then is; how many there were.
int Replay::repeat(Origin& origin, std::size_t& form) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  const std::int64_t left = origin.tick;
  int repeats = 0;
  for (; repeats < kRepeatsAtOnce; ++repeats) {
    const std::size_t which = known_step(origin, form);
    if (which == MacroSteps::kUnknown) break;
    const MacroStep& step = steps_[which];
    emit(which, origin);
    origin = origin_at(origin.tick + step.ticks, streams_.front());
    form = step.end;
    if (!step.end_refresh.empty()) controller.jump_refresh(origin.tick, step.end_refresh);
  }
  if (repeats == 0) return 0;
  controller.jump(left, steps_.form(form), origin, gained_in_repeats());
  remember_repeats();
  return repeats;
}

// The results of a macro-step that was not simulated.
void Replay::emit(std::size_t which, const Origin& origin) {
  const MacroStep& step = steps_[which];
  bool one_row = true;  // of the table, for each stream
  for (std::size_t k = 0; k < streams_.size(); ++k) {
    Stream& s = streams_[k];
    const MacroStep::Taken& taken = step.taken[k];
    if (taken.offered.empty()) continue;
    Cursor c = s;
    if (map_ && c.row == ends_[k].row) {
      std::int64_t& accepted = results_.accept_tick[c.row];
      if (!taken.accepted.empty() && accepted < 0) accepted = origin.tick + taken.accepted.front();
    } else {
      for (const std::int32_t at : taken.accepted) {
        std::int64_t& accepted = results_.accept_tick[c.row];
        if (accepted < 0 || origin.tick + at < accepted) accepted = origin.tick + at;
        fetch(s, c);
        if (map_ && c.have && c.row != s.spans.back().row) s.spans.push_back({c.ordinal, c.row});
      }
    }
    bytes_ += taken.count * config_.access_bytes;
    static_cast<Cursor&>(s) = ends_[k];
    s.blocked = true;
    const auto first = static_cast<std::int64_t>(origin.tag) + taken.first_tag;
    one_row = one_row && map_ && (taken.finished == 0 || first >> 1 >= s.spans.back().first);
  }
  if (one_row) {
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      const MacroStep::Taken& taken = step.taken[k];
      if (taken.finished == 0) continue;
      const std::uint32_t row = streams_[k].spans.back().row;
      std::int64_t& issued = results_.issue_tick[row];
      if (issued < 0 || origin.tick + taken.first_issue < issued) {
        issued = origin.tick + taken.first_issue;
        results_.row_result[row] = static_cast<std::uint8_t>(taken.first_result);
      }
      results_.done_tick[row] = std::max(results_.done_tick[row], origin.tick + taken.last_done);
      last_done_ = std::max(last_done_, origin.tick + taken.last_done);
      finished_ += taken.finished;
    }
  } else {
    Completion c;
    for (const MacroStep::Finished& f : step.finished) {
      c.tag = origin.tag + static_cast<std::uint64_t>(static_cast<std::int64_t>(f.tag));
      c.issue_tick = origin.tick + f.issue;
      c.done_tick = origin.tick + f.done;
      c.row_result = f.row_result;
      finish(c);
    }
  }
  skipped_ += static_cast<std::int64_t>(step.finished.size());
  repeated_.push_back({which, origin});
}

// Each kind of them once: a macro-step under one naming of the banks.
Statistics Replay::gained_in_repeats() {
  const auto banks = static_cast<std::size_t>(config_.banks());
  kinds_.clear();
  for (const Repeated& r : repeated_) kinds_.emplace_back(r.step, r.origin.turn);
  std::sort(kinds_.begin(), kinds_.end());
  Statistics gained;
  for (auto kind = kinds_.begin(); kind != kinds_.end();) {
    const auto behind = std::find_if(kind, kinds_.end(), [&](const auto& x) { return x != *kind; });
    gained.add(steps_[kind->first].gained, behind - kind, banks, *kind->second);
    kind = behind;
  }
  return gained;
}

// Tells the channel what it issued in the macro-steps that were jumped over; what is not recent any more only counts.
void Replay::remember_repeats() {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  std::size_t first = config_.log_commands ? 0 : repeated_.size();
  for (std::size_t recent = 0; first > 0 && recent < Channel::kRecent;) {
    recent += steps_[repeated_[--first].step].commands.size();
  }
  std::int64_t before = 0;
  for (std::size_t i = 0; i < first; ++i) {
    before += static_cast<std::int64_t>(steps_[repeated_[i].step].commands.size());
  }
  for (std::size_t i = first; i < repeated_.size(); ++i) {
    const Origin& origin = repeated_[i].origin;
    const MacroStep& step = steps_[repeated_[i].step];
    moved_.assign(step.commands.begin(), step.commands.end());
    for (IssuedCommand& c : moved_) {
      c.tick += origin.tick;
      if (c.bank < 0) continue;
      const std::size_t bank = origin.turn->real[static_cast<std::size_t>(c.bank)];
      c.bank = static_cast<std::int16_t>(bank);
      if (has_row(c)) c.row += origin.row + origin.turn->row[bank];
    }
    controller.remember(moved_, std::exchange(before, 0));
    if (!config_.log_commands) continue;
    for (const IssuedCommand& c : moved_) commands_.push_back({now_channel_, c});
  }
  repeated_.clear();
}

}  // namespace cosim::mem
