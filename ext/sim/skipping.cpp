#include "sim/skipping.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace cosim::sim {

void Skipping::interrupt() {
  anchored_ = false;
  looking_ = true;
  since_anchor_ = 0;
  until_anchor_ = 1;
  in_vain_ = 0;
}

void Skipping::give_up(const std::string& why) {
  looking_ = false;
  ++report_.reasons[why];
}

// Whether `found` is `times` of this period.
bool Skipping::repeats(const Period& period, const Period& found) {
  if (found.length % period.length != 0 || found.growth.size() != period.growth.size()) return false;
  const std::int64_t times = found.length / period.length;
  for (std::size_t i = 0; i < found.growth.size(); ++i) {
    if (found.growth[i] != times * period.growth[i]) return false;
  }
  return true;
}

// The anchor's form has come again: a period, if it is none that begins here anyway.
void Skipping::keep(Walked& system, Fs now) {
  canonical_.take(now, again_);
  system.walk(canonical_);
  Known found;
  found.period.length = now - anchor_.now;
  found.period.growth.reserve(again_.grows.size());
  for (std::size_t i = 0; i < again_.grows.size(); ++i) {
    found.period.growth.push_back(again_.grows[i] - anchor_.grows[i]);
  }
  for (const Known& known : known_) {
    if (known.used == clock_ && repeats(known.period, found.period)) return;
  }
  found.form = again_;
  found.used = clock_;
  ++report_.found;
  anchored_ = false;
  until_anchor_ = 1;
  if (known_.size() == kKept) {
    known_.erase(
        std::min_element(known_.begin(), known_.end(), [](const Known& x, const Known& y) { return x.used < y.used; }));
  }
  known_.push_back(std::move(found));
}

// How many of a known period may be skipped from here; -1 when the system is not at its beginning.
std::int64_t Skipping::fits(Walked& system, Fs now, Fs bound, const Known& known) {
  canonical_.compare(now, known.form, &known.period);
  system.walk(canonical_);
  if (!canonical_.equal()) return -1;
  canonical_.limit(now, known.period);
  if (bound != kNever) canonical_.ends_before(bound);
  system.walk(canonical_);
  const std::int64_t times = canonical_.most();
  return times == std::numeric_limits<std::int64_t>::max() ? 0 : std::max<std::int64_t>(times, 0);
}

Fs Skipping::look(Walked& system, Fs now, Fs bound) {
  ++report_.looks;
  bool again = false;
  if (anchored_) {
    canonical_.compare(now, anchor_, nullptr);
    system.walk(canonical_);
    again = canonical_.equal();
  }
  ++clock_;
  for (Known& known : known_) {
    known.fits = fits(system, now, bound, known);
    if (known.fits >= 0) known.used = clock_;
  }
  if (again) {
    keep(system, now);
    if (known_.back().used == clock_) known_.back().fits = fits(system, now, bound, known_.back());
  }
  // a short period between two refreshes and a long one with refreshes in it may begin here: the longest jump counts
  const Known* chosen = nullptr;
  for (const Known& known : known_) {
    if (known.fits >= 0) in_vain_ = 0;
    if (known.fits <= 0) continue;
    if (chosen == nullptr || known.fits * known.period.length > chosen->fits * chosen->period.length) chosen = &known;
  }
  if (!anchored_ || ++since_anchor_ >= until_anchor_) {
    canonical_.take(now, anchor_);
    system.walk(canonical_);
    if (canonical_.refused() != nullptr) {
      anchored_ = false;
      give_up(canonical_.refused());
      return 0;
    }
    if (anchored_) until_anchor_ *= 2;
    anchored_ = true;
    since_anchor_ = 0;
  }
  if (chosen != nullptr) {
    const Fs skipped = chosen->period.length * chosen->fits;
    canonical_.jump(now, chosen->period, chosen->fits);
    system.walk(canonical_);
    ++report_.jumps;
    report_.periods += chosen->fits;
    report_.time += skipped;
    return skipped;
  }
  if (++in_vain_ == kMostLooks) give_up("no period within " + std::to_string(kMostLooks) + " retired tiles");
  return 0;
}

}  // namespace cosim::sim
