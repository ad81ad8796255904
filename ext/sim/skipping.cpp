#include "sim/skipping.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace cosim::sim {

void Skipping::interrupt() {
  weigh_anchors();
  looking_ = true;
  in_vain_ = 0;
  withheld_ = false;
}

void Skipping::weigh_anchors() {
  anchored_ = 0;
  stride_ = 1;
  since_anchor_ = 0;
}

bool Skipping::drop_anchor(Walked& system, Fs now) {
  if (anchored_ == kAnchors) {
    for (std::size_t i = 1; i < kAnchors / 2; ++i) std::swap(anchors_[i], anchors_[2 * i]);
    anchored_ = kAnchors / 2;
    stride_ *= 2;
  }
  if (anchors_.size() == anchored_) anchors_.emplace_back();
  canonical_.take(now, anchors_[anchored_]);
  walk(system);
  if (canonical_.refused() != nullptr) return false;
  ++anchored_;
  since_anchor_ = 0;
  return true;
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

// Looks for an anchor whose form has come again: a period, if it is none that begins here anyway.
bool Skipping::find(Walked& system, Fs now) {
  bool taken = false;
  for (std::size_t i = anchored_; i-- > 0;) {
    const Form& anchor = anchors_[i];
    canonical_.compare(now, anchor, nullptr);
    walk(system);
    if (!canonical_.equal()) continue;
    if (!taken) {
      canonical_.take(now, again_);
      walk(system);
      taken = true;
    }
    Period period;
    period.length = now - anchor.now;
    period.growth.reserve(again_.grows.size());
    for (std::size_t at = 0; at < again_.grows.size(); ++at) {
      period.growth.push_back(again_.grows[at] - anchor.grows[at]);
    }
    const auto begins_here = [&](const Known& known) { return known.used == clock_ && repeats(known.period, period); };
    if (std::any_of(known_.begin(), known_.end(), begins_here)) continue;
    keep(std::move(period));
    return true;
  }
  return false;
}

void Skipping::keep(Period period) {
  ++report_.found;
  weigh_anchors();
  if (known_.size() == kKept) {
    known_.erase(
        std::min_element(known_.begin(), known_.end(), [](const Known& x, const Known& y) { return x.used < y.used; }));
  }
  known_.push_back({again_, std::move(period), clock_, -1});
}

// How many of a known period may be skipped from here; -1 when the system is not at its beginning.
std::int64_t Skipping::fits(Walked& system, Fs now, Fs bound, const Known& known) {
  canonical_.compare(now, known.form, &known.period);
  if (bound != kNever) canonical_.ends_before(bound);
  walk(system);
  if (!canonical_.equal()) return -1;
  const std::int64_t times = canonical_.most();
  return times == std::numeric_limits<std::int64_t>::max() ? 0 : std::max<std::int64_t>(times, 0);
}

Fs Skipping::look(Walked& system, Fs now, Fs bound, std::int64_t instants) {
  const std::int64_t stepped = instants - report_.instants;
  if (items_ > kItemsAtFirst + kItemsPerInstant * stepped + kItemsPerSkipped * report_.instants) {
    if (!withheld_) ++report_.reasons["looking for a period had cost its share"];
    withheld_ = true;
    return 0;
  }
  ++report_.looks;
  ++clock_;
  for (Known& known : known_) {
    known.fits = fits(system, now, bound, known);
    if (known.fits >= 0) known.used = clock_;
  }
  if (find(system, now)) known_.back().fits = fits(system, now, bound, known_.back());
  // a short period between two refreshes and a long one with refreshes in it may begin here: the longest jump counts
  const Known* chosen = nullptr;
  for (const Known& known : known_) {
    if (known.fits >= 0) in_vain_ = 0;
    if (known.fits <= 0) continue;
    if (chosen == nullptr || known.fits * known.period.length > chosen->fits * chosen->period.length) chosen = &known;
  }
  if ((anchored_ == 0 || ++since_anchor_ >= stride_) && !drop_anchor(system, now)) {
    weigh_anchors();
    looking_ = false;
    ++report_.reasons[canonical_.refused()];
    return 0;
  }
  if (chosen != nullptr) {
    const Fs skipped = chosen->period.length * chosen->fits;
    canonical_.jump(now, chosen->period, chosen->fits);
    walk(system);
    ++report_.jumps;
    report_.periods += chosen->fits;
    report_.time += skipped;
    return skipped;
  }
  if (++in_vain_ == kManyLooks) {
    ++report_.reasons["no period within the first " + std::to_string(kManyLooks) + " retired tiles"];
  }
  return 0;
}

}  // namespace cosim::sim
