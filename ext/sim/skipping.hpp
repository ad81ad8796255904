// Finds that a system repeats itself, and how far it will.
//
// At instants that every period passes through (its owner calls look() there) the canonical form is compared with kept
// ones: with those of periods found before, and with up to sixteen anchors a stride of looks apart. When there is no
// room for another, every second one is given up and the stride doubles, so a period is found at most an eighth of the
// time after it has begun to repeat itself, whatever went before it. A comparison ends at the first difference, so
// looking in vain costs next to nothing. A form that recurs proves the period; it is kept, with what grows in it by how
// much, and serves again whenever the system comes back to it.
//
// A walk costs what it shows, and a run in which nothing repeats itself must not pay for it: looks are taken as long as
// all walks have shown no more than a few items for every instant that was stepped. An instant that was skipped has
// paid for many more: it would have cost as much as hundreds of items.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/canonical.hpp"
#include "sim/form.hpp"

namespace cosim::sim {

class Skipping {
 public:
  // Looks in a stretch without a period of which the report speaks. The search goes on: with refresh a stream of
  // gigabytes may come to its first period late.
  static constexpr std::int64_t kManyLooks = 4096;
  static constexpr std::size_t kKept = 8;
  // Items that walks may show: an item costs nanoseconds, an instant some microseconds, so looking in vain stays at a
  // few percent of a run.
  static constexpr std::int64_t kItemsAtFirst = 1 << 18;
  static constexpr std::int64_t kItemsPerInstant = 16;
  static constexpr std::int64_t kItemsPerSkipped = 96;
  static constexpr std::size_t kAnchors = 16;

  // Something came from outside: what repeated itself need not do so any more.
  void interrupt();
  // Whether look() is worth a call in this stretch.
  [[nodiscard]] bool looking() const { return looking_; }
  // Compares the system as it is after the instant `now`, the `instants`th, and, when it repeats itself, moves it on by
  // as many whole periods as end before `bound` and below all limits. Returns the time skipped.
  Fs look(Walked& system, Fs now, Fs bound, std::int64_t instants);

  // From now on forms lack this: results may be wrong.
  void leave_out(Part part) { canonical_.leave_out(part); }
  [[nodiscard]] const SkipReport& report() const { return report_; }
  void note_instants(std::int64_t skipped) { report_.instants += skipped; }

 private:
  struct Known {
    Form form;
    Period period;
    std::int64_t used = 0;   // look at which the system was last at its beginning
    std::int64_t fits = -1;  // periods that could be skipped from there, -1: it is not there now
  };
  void walk(Walked& system) {
    system.walk(canonical_);
    items_ += canonical_.shown();
  }
  [[nodiscard]] std::int64_t fits(Walked& system, Fs now, Fs bound, const Known& known);
  [[nodiscard]] static bool repeats(const Period& period, const Period& found);
  [[nodiscard]] bool find(Walked& system, Fs now);
  void keep(Period period);
  bool drop_anchor(Walked& system, Fs now);  // false: the system has no form
  void weigh_anchors();

  Canonical canonical_;
  std::vector<Known> known_;
  std::vector<Form> anchors_;  // oldest first; those behind `anchored_` are spare room
  std::size_t anchored_ = 0;
  std::int64_t stride_ = 1;  // looks between two anchors
  std::int64_t since_anchor_ = 0;
  Form again_;
  bool looking_ = true;
  std::int64_t in_vain_ = 0;
  std::int64_t clock_ = 0;  // of looks
  std::int64_t items_ = 0;  // shown by all walks
  bool withheld_ = false;   // a look, in this stretch
  SkipReport report_;
};

}  // namespace cosim::sim
