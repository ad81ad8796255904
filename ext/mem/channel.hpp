// A memory channel as its owner sees it: requests in, completions out, time by events.
//
// Time is counted in ticks (command slots of DRAM, clock cycles of SRAM). A request accepted at tick t is seen from
// tick t + 1 on. The channel is driven by its owner: advance(tick) does everything due at `tick`, next_event() is the
// next tick worth calling it at.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mem/channel_config.hpp"
#include "mem/command.hpp"
#include "sim/visit.hpp"

namespace cosim::sim {
class Canonical;
struct Present;
}  // namespace cosim::sim

namespace cosim::mem {

inline constexpr std::int64_t kNeverTick = std::numeric_limits<std::int64_t>::max();

struct Request {
  Op op = Op::read;
  std::uint8_t pc = 0;
  std::uint8_t stack_id = 0;
  std::uint8_t bg = 0;
  std::uint8_t bank = 0;  // within its bank group
  std::uint8_t message_class = 0;
  std::int8_t priority = 0;  // each level counts as age_cap requests of age (1 when there is no cap)
  std::uint8_t reserved = 0;
  std::int32_t row = 0;
  std::int32_t column = 0;
  std::uint64_t tag = 0;
};

// Written when the request's column command is issued (or its data forwarded): done_tick lies in the future.
struct Completion {
  std::uint64_t tag = 0;
  std::int64_t issue_tick = 0;
  std::int64_t done_tick = 0;  // read: last beat on the bus; write: last beat taken
  std::uint8_t pc = 0;
  Op op = Op::read;
  RowResult row_result = RowResult::none;
  std::uint8_t message_class = 0;
  std::array<std::uint8_t, 4> unused{};
};

struct IssuedCommand {
  std::int64_t tick = 0;
  std::int32_t row = -1;
  std::int32_t column = -1;
  Command command = Command::ACT;
  std::uint8_t pc = 0;
  std::int16_t bank = -1;  // index within the pseudo-channel over stack ids and bank groups; -1: all banks
  std::array<std::uint8_t, 4> unused{};
};

struct BankCounters {
  std::int64_t bytes = 0;
  std::int64_t act = 0;
  std::int64_t pre = 0;
  std::int64_t rd = 0;
  std::int64_t wr = 0;
  std::int64_t ref = 0;
  std::int64_t row_hits = 0;
  std::int64_t row_misses = 0;
  std::int64_t row_conflicts = 0;
  std::int64_t busy_ticks = 0;  // from ACT to the end of the precharge, and refreshes
};

struct ChannelCounters {
  std::int64_t asked = 0;
  std::int64_t served_reads = 0;
  std::int64_t served_writes = 0;
  std::int64_t forwarded = 0;
  std::int64_t coalesced = 0;
  std::int64_t cancelled = 0;
  std::int64_t refreshes_all = 0;
  std::int64_t refreshes_bank = 0;
  std::int64_t precharges_all = 0;
  std::int64_t most_postponed = 0;           // refreshes owed at once, at most
  std::int64_t any_open_ticks = 0;           // pseudo-channel ticks with a row open
  std::int64_t blocked_by_return_ticks = 0;  // pseudo-channel ticks with reads waiting for a read-return slot
};

// Requests of one queue pair in the order in which they come in, for a channel that takes them by itself.
struct Offers {
  std::span<const Request> requests;
  std::span<const std::int64_t> arrive;  // ticks, as long as `requests`
  std::span<std::int64_t> accepted;      // filled: the tick in which each was taken
  std::size_t taken = 0;
  bool more = false;  // others come behind these

  [[nodiscard]] bool all_taken() const { return taken == requests.size(); }
  [[nodiscard]] bool used_up() const { return more && all_taken(); }
};

// Other names for banks: a channel whose banks are renamed within their bank groups, and bank groups within their stack
// ids, goes on as before.
struct BankTurn {
  std::array<std::uint8_t, kMaxBanks> real{};  // by name
  std::array<std::uint8_t, kMaxBanks> name{};  // by bank
  std::array<std::int32_t, kMaxBanks> row{};   // by bank: its rows are counted from so far behind those of the origin

  // Every bank has its own name.
  [[nodiscard]] static constexpr BankTurn unturned() {
    BankTurn t;
    for (std::size_t b = 0; b < kMaxBanks; ++b) t.real[b] = t.name[b] = static_cast<std::uint8_t>(b);
    return t;
  }
  bool operator==(const BankTurn&) const = default;
};

// All that has been counted, what is still open included; grows by the same amount in equal stretches of time.
struct Statistics {
  ChannelCounters channel;
  std::vector<BankCounters> banks;  // pseudo-channel by pseudo-channel
  std::array<std::int64_t, kMaxPseudoChannels> refreshes{};

  void add(const Statistics& more);  // but of most_postponed the larger one
  // So many times, of a channel whose banks, so many a pseudo-channel, have other names here.
  void add(const Statistics& more, std::int64_t times, std::size_t banks_each, const BankTurn& turn);
  void subtract(const Statistics& less);  // most_postponed stays
};

// What a canonical form counts from.
struct Origin {
  std::int64_t tick = 0;
  std::int32_t row = 0;
  std::uint64_t tag = 0;
  const BankTurn* turn = nullptr;  // none: banks keep their names
};

// Shows what the owner of a channel knows of its requests: by their tags, and of the rows that they want.
class RequestNames {
 public:
  virtual ~RequestNames() = default;
  virtual void tag(sim::Canonical& c, Op op, std::uint64_t tag) = 0;
  virtual void row(sim::Canonical& c, std::int32_t& row) = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Room for one more request of this kind.
  [[nodiscard]] virtual bool can_accept(Op op, int pc) const = 0;
  // Takes a request at `tick` (>= the last advance); the caller has asked can_accept.
  virtual void accept(const Request& request, std::int64_t tick) = 0;
  // Takes it if there is room or if it needs none (forwarded, absorbed).
  virtual bool try_accept(const Request& request, std::int64_t tick) = 0;

  [[nodiscard]] virtual std::int64_t next_event() const = 0;
  // The next tick at which a request can come forward: refreshes and idle-row closing do not count.
  [[nodiscard]] virtual std::int64_t next_progress() const = 0;
  virtual void advance(std::int64_t tick) = 0;
  // Does all that is due up to and including `limit`, event by event. Ends early, and returns the tick of the last
  // event, after kEventsAtOnce, or with `stops` behind one that leaves completions (and, where a request leaves its
  // queue at its ACT, behind any one); else returns kNeverTick.
  std::int64_t advance_through(std::int64_t limit, bool stops);
  // Does all that is due behind `tick`, up to which all has been done, and takes requests as they arrive and find room:
  // in a tick behind its commands, one of `offers` after the other. Ends, and returns the tick it has come to, when one
  // of `offers` is used up, when all are taken, or after kEventsAtOnce.
  virtual std::int64_t serve(std::span<Offers> offers, std::int64_t tick);

  // Cleared by the owner.
  std::vector<Completion> completions;
  // Filled when the configuration asks for it; cleared by the owner.
  std::vector<IssuedCommand> commands;

  // A finite read-return buffer: a RD takes a slot, the owner gives it back. Without this call there is no limit.
  virtual void set_return_slots(int pc, int slots) = 0;
  virtual void release_slot(int pc, std::int64_t tick) = 0;

  // Takes back requests whose column command is not issued, tag in [first, last]; returns how many.
  virtual std::int64_t cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) = 0;

  [[nodiscard]] virtual std::int64_t queued() const = 0;
  [[nodiscard]] virtual const ChannelConfig& config() const = 0;
  [[nodiscard]] virtual const ChannelCounters& counters() const = 0;
  // Counters up to `tick`: open banks are booked as busy until then.
  [[nodiscard]] virtual BankCounters bank_counters(int pc, int bank, std::int64_t tick) const = 0;
  [[nodiscard]] virtual std::int64_t any_open_ticks(std::int64_t tick) const = 0;
  [[nodiscard]] virtual std::int64_t refreshes(int pc) const = 0;
  // The last commands issued, oldest first (at most kRecent): for finding what bounds a run.
  [[nodiscard]] virtual std::vector<IssuedCommand> recent_commands() const = 0;

  // Empty when asked = served + forwarded + absorbed + cancelled + waiting, and queues agree with their counts.
  [[nodiscard]] virtual std::string verify_conservation() const = 0;
  // Who waits for what, for the deadlock report.
  [[nodiscard]] virtual std::string describe_wait() const = 0;

  // Makes equal futures equal bytes: times relative to `tick`, past ones clipped, ages relative to the next request.
  virtual void normalise(std::int64_t tick) = 0;
  virtual void visit(sim::Visitor& v) = 0;
  // Walks all that decides the future, as a part of a system (sim/canonical.hpp); the present is in ticks.
  virtual void walk(sim::Canonical& c, const sim::Present& present, RequestNames& names) = 0;

  // -- exact skipping; between ticks: all that is due by the origin's tick is done, completions and commands are taken
  // Appends what decides the future. Channels of one configuration whose forms are equal go on equally, moved by the
  // distance of their origins. Without refresh the form holds until next_refresh(), and as long as that lies ahead.
  // False: this channel has no such form.
  [[nodiscard]] virtual bool canonical(const Origin& /*from*/, bool /*with_refresh*/,
                                       std::vector<std::int32_t>& /*out*/) const {
    return false;
  }
  // Whether a form is as good under other names of the banks.
  [[nodiscard]] virtual bool banks_are_alike() const { return false; }
  // Appends what a form with refresh has more than one without, seen from a tick.
  virtual void refresh_form(std::int64_t /*tick*/, std::vector<std::int32_t>& /*out*/) const {}
  // Goes on as such a part of a form does, at a tick; all else stays as it is. To be followed by a jump.
  virtual void jump_refresh(std::int64_t /*tick*/, std::span<const std::int32_t> /*form*/) {}
  // Leaves at tick `left` and goes on as `form` does, at another origin; in between `gained` was counted. What a form
  // without refresh leaves out stays as it is. Recent commands are not moved.
  virtual void jump(std::int64_t /*left*/, std::span<const std::int32_t> /*form*/, const Origin& /*to*/,
                    const Statistics& /*gained*/) {}
  [[nodiscard]] virtual Statistics statistics(std::int64_t tick) const;
  // Takes over the state of a channel of its configuration whose form was its own at tick `since`, where it still is;
  // up to `tick` that one has `gained`. For channels that have a form.
  virtual void follow(const Channel& /*leader*/, const Statistics& /*gained*/, std::int64_t /*since*/,
                      std::int64_t /*tick*/) {}
  // Commands of a stretch that was jumped over, for recent_commands(), and how many went before them of which nobody
  // asks any more.
  virtual void remember(std::span<const IssuedCommand> /*issued*/, std::int64_t /*before*/) {}
  // Commands issued so far.
  [[nodiscard]] virtual std::int64_t issued() const { return 0; }
  // Appends the last of them, at most kRecent.
  virtual void last_commands(std::int64_t /*count*/, std::vector<IssuedCommand>& /*out*/) const {}
  // Of the counters the one that is a maximum starts anew; returns what it was.
  virtual std::int64_t restart_most_postponed(std::int64_t /*from*/) { return 0; }
  // When the next refresh falls due; not after the present tick while one is owed.
  [[nodiscard]] virtual std::int64_t next_refresh() const { return kNeverTick; }

  static constexpr int kRecent = 2048;  // a power of two
  static constexpr int kEventsAtOnce = 1024;

 protected:
  Channel() = default;
  Channel(const Channel&) = default;
  Channel(Channel&&) = default;
  Channel& operator=(const Channel&) = default;
  Channel& operator=(Channel&&) = default;
};

// Makes channels that are not ours.
class ChannelFactory {
 public:
  virtual ~ChannelFactory() = default;
  [[nodiscard]] virtual std::unique_ptr<Channel> create(const ChannelConfig& config) const = 0;
};

// The channel of a configuration: DRAM, SRAM or a plug-in's. std::invalid_argument lists every problem.
[[nodiscard]] std::unique_ptr<Channel> make_channel(const ChannelConfig& config);

}  // namespace cosim::mem
