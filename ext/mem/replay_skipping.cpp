// Macro-steps of a replay: where they begin and end, whether one comes again, what it leaves behind.
#include <algorithm>
#include <utility>

#include "mem/replay.hpp"

namespace cosim::mem {
namespace {

constexpr std::int64_t kLongestPeriod = 1 << 14;  // bursts
constexpr std::int64_t kMisses = 1024;            // macro-steps recorded in vain before a stream is left alone ...
constexpr std::int64_t kLeftAlone = 8;            // ... until it is this many times as far

constexpr int kRepeatsAtOnce = 256;  // so that a run can be interrupted

bool has_row(const IssuedCommand& i) {
  return i.command != Command::PREab && i.command != Command::REFab && i.command != Command::REFpb;
}

// Equal up to the distance of their rows.
bool alike(const Request& x, const Request& y, std::int32_t rows) {
  return x.op == y.op && x.pc == y.pc && x.stack_id == y.stack_id && x.bg == y.bg && x.bank == y.bank &&
         x.column == y.column && y.row - x.row == rows;
}

}  // namespace

void Replay::Recording::accepted(const Stream& s, std::int64_t at) {
  MacroStep::Taken& taken = step.taken[step.taken.size() > 1 ? s.next.tag & 1 : 0];
  ++taken.count;
  waited = waited || s.arrive > tick;
  taken.accepted.push_back(static_cast<std::int32_t>(at - tick));
  taken.offered.push_back(s.next);
  taken.offered.back().row -= origin.row;
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
  boundary_at_ = lead.ordinal;
  look_at_ = std::max(2 * lead.ordinal, lead.ordinal + kLongestPeriod / 4);
  periodic_ = periodic_ || period_ != 0;
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
  if (recording_.on) finish_recording(tick);
  int repeats = 0;
  for (std::int64_t end = repeat(tick); end >= 0; end = repeat(tick)) {
    tick = boundary_ = end;
    misses_ = 0;
    arrival_ = kNeverTick;
    if (++repeats == kRepeatsAtOnce) {
      remember_repeats();
      boundary_at_ = lead.ordinal;
      resume_at_ = tick;
      return;
    }
  }
  remember_repeats();
  boundary_at_ = lead.ordinal + period_;
  if (++misses_ > kMisses || !lead.blocked) {
    period_ = 0;
    look_at_ = kLeftAlone * lead.ordinal;
    return;
  }
  if (!steps_.full()) start_recording(tick);
}

// False where the state of the streams has no place in a macro-step: a request is still to come in.
bool Replay::origin_of(std::int64_t tick, Origin& origin) const {
  const Stream& lead = streams_.front();
  origin = {tick, lead.next.row, static_cast<std::uint64_t>(lead.ordinal) << 1};
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return !s.have || s.blocked; });
}

void Replay::start_recording(std::int64_t tick) {
  const Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  Recording& r = recording_;
  r.on = false;
  r.step = {};
  if (!origin_of(tick, r.origin)) return;
  r.next_refresh = controller.next_refresh();
  if (!controller.canonical(r.origin, false, r.step.start)) {
    skipping_ = false;  // this channel has no such form
    return;
  }
  r.on = true;
  r.waited = false;
  r.tick = tick;
  r.issued = controller.issued();
  r.before = controller.statistics(tick);
  r.most_postponed = controllers_[static_cast<std::size_t>(now_channel_)]->restart_most_postponed(0);
  r.step.taken.resize(streams_.size());
  r.from.assign(streams_.begin(), streams_.end());
  if (r.next_refresh <= tick) {  // needed whole
    r.step.with_refresh = true;
    r.step.start.clear();
    (void)controller.canonical(r.origin, true, r.step.start);
  } else {
    r.step.end.clear();
    (void)controller.canonical(r.origin, true, r.step.end);  // kept in case a refresh falls due
  }
}

void Replay::abandon_recording() {
  if (!recording_.on) return;
  recording_.on = false;
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  const std::int64_t most = controller.restart_most_postponed(0);
  (void)controller.restart_most_postponed(std::max(most, recording_.most_postponed));
}

void Replay::finish_recording(std::int64_t tick) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  Recording& r = recording_;
  r.on = false;
  MacroStep& step = r.step;
  Statistics gained = controller.statistics(tick);
  const std::int64_t most = gained.channel.most_postponed;
  (void)controller.restart_most_postponed(std::max(most, r.most_postponed));
  Origin end;
  if (r.waited || !origin_of(tick, end)) return;
  if (!step.with_refresh && r.next_refresh <= tick) {
    step.with_refresh = true;
    step.start = step.end;
  }
  step.ticks = tick - r.tick;
  step.end.clear();
  (void)controller.canonical({tick, r.origin.row, r.origin.tag}, step.with_refresh, step.end);
  gained.subtract(r.before);
  gained.channel.most_postponed = most;
  step.gained = std::move(gained);
  const std::int64_t issued = controller.issued() - r.issued;
  const auto recent = controller.recent_commands();
  if (config_.log_commands) {
    const auto first = commands_.end() - static_cast<std::ptrdiff_t>(issued);
    for (auto i = first; i != commands_.end(); ++i) step.commands.push_back(i->command);
  } else {  // what is not recent any more only counts
    const auto kept = std::min(issued, static_cast<std::int64_t>(recent.size()));
    step.commands.resize(static_cast<std::size_t>(issued - kept));
    step.commands.insert(step.commands.end(), recent.end() - static_cast<std::ptrdiff_t>(kept), recent.end());
  }
  for (IssuedCommand& i : step.commands) {
    i.tick -= r.tick;
    if (has_row(i)) i.row -= r.origin.row;
  }
  for (std::size_t k = 0; k < streams_.size(); ++k) {
    const Stream& s = streams_[k];
    MacroStep::Taken& taken = step.taken[k];
    const Cursor& from = r.from[k];
    if (!from.have) continue;
    if (!s.have) return;
    taken.offered.push_back(s.next);
    taken.offered.back().row -= r.origin.row;
    if (s.bursts_per_dram_row != 0 && s.row == from.row && taken.count > 0) {
      taken.phase = phase_of(s, from);
      taken.span = s.found - from.found;
      taken.offered = {taken.offered.front(), taken.offered.back()};
      taken.accepted.resize(1);
    }
  }
  steps_.add(std::move(step));
}

// Where in one row of all banks a burst lies; streams differ in the bits that select them.
std::int64_t Replay::phase_of(const Stream& s, const Cursor& c) const {
  return static_cast<std::int64_t>(c.found & ~s.select_mask & (row_stride_ - 1));
}

bool Replay::comes_again(const MacroStep& step, const Origin& origin, std::vector<Cursor>& ends) const {
  ends.clear();
  for (std::size_t k = 0; k < streams_.size(); ++k) {
    const Stream& s = streams_[k];
    const MacroStep::Taken& taken = step.taken[k];
    Cursor& c = ends.emplace_back(s);
    if (taken.offered.empty()) {
      if (s.have) return false;
      continue;
    }
    if (!s.have || s.arrive > origin.tick) return false;
    if (taken.phase >= 0) {
      if (s.bursts_per_dram_row == 0 || s.found + taken.span >= s.end || phase_of(s, s) != taken.phase ||
          !alike(taken.offered.front(), s.next, origin.row)) {
        return false;
      }
      c.found += taken.span;
      c.address = c.found + static_cast<std::uint64_t>(map_->access_bytes());
      c.ordinal += taken.count;
      c.next = taken.offered.back();
      c.next.row += origin.row;
      c.next.tag = s.next.tag + (static_cast<std::uint64_t>(taken.count) << 1);
      continue;
    }
    for (std::size_t i = 0; i < taken.offered.size(); ++i) {
      if (!c.have || c.arrive > origin.tick || !alike(taken.offered[i], c.next, origin.row)) return false;
      if (i + 1 < taken.offered.size()) fetch(s, c);
    }
  }
  return true;
}

std::int64_t Replay::repeat(std::int64_t tick) {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  Origin origin;
  if (!origin_of(tick, origin)) return -1;
  const std::int64_t refresh = controller.next_refresh();
  std::vector<Cursor> ends;
  for (const bool with_refresh : {false, true}) {
    if (with_refresh ? refresh == kNeverTick : refresh <= tick) continue;
    form_.clear();
    if (!controller.canonical(origin, with_refresh, form_)) return -1;
    for (const std::size_t i : steps_.starting_with(form_)) {
      const MacroStep& step = steps_[i];
      if (step.with_refresh != with_refresh || step.start != form_) continue;
      if (!with_refresh && refresh != kNeverTick && refresh <= tick + step.ticks) continue;
      if (!comes_again(step, origin, ends)) continue;
      controller.jump(tick, step.end, {tick + step.ticks, origin.row, origin.tag}, step.gained);
      emit(i, origin, ends);
      return tick + step.ticks;
    }
  }
  return -1;
}

// The results of a macro-step that was not simulated.
void Replay::emit(std::size_t which, const Origin& origin, const std::vector<Cursor>& ends) {
  const MacroStep& step = steps_[which];
  bool one_row = true;  // of the table, for each stream
  for (std::size_t k = 0; k < streams_.size(); ++k) {
    Stream& s = streams_[k];
    const MacroStep::Taken& taken = step.taken[k];
    if (taken.offered.empty()) continue;
    Cursor c = s;
    if (map_ && c.row == ends[k].row) {
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
    static_cast<Cursor&>(s) = ends[k];
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
  if (step.commands.size() >= Channel::kRecent) {  // hides all before
    for (const Repeated& r : repeated_) {
      repeated_before_ += static_cast<std::int64_t>(steps_[r.step].commands.size());
    }
    repeated_.clear();
  }
  repeated_.push_back({which, origin});
  if (config_.log_commands) remember_repeats();
}

// Tells the channel what it issued in the macro-steps that were jumped over.
void Replay::remember_repeats() {
  Channel& controller = *controllers_[static_cast<std::size_t>(now_channel_)];
  for (const Repeated& r : repeated_) {
    const MacroStep& step = steps_[r.step];
    moved_.assign(step.commands.begin(), step.commands.end());
    for (IssuedCommand& i : moved_) {
      i.tick += r.origin.tick;
      if (has_row(i)) i.row += r.origin.row;
    }
    controller.remember(moved_, std::exchange(repeated_before_, 0));
    if (!config_.log_commands) continue;
    for (const IssuedCommand& i : moved_) commands_.push_back({now_channel_, i});
  }
  repeated_.clear();
}

}  // namespace cosim::mem
