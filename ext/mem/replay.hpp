// Plays a table of requests through the channels of a memory: what `run_requests` does.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mem/address_map.hpp"
#include "mem/channel.hpp"
#include "mem/channel_config.hpp"
#include "mem/macro_steps.hpp"

namespace cosim::mem {

// One row per request, columns of equal length. With `address` a row may cover many bursts; otherwise it is one burst
// at its coordinate.
struct RequestTable {
  std::vector<std::int64_t> arrive_tick;
  std::vector<std::uint8_t> op;  // Op
  std::vector<std::int64_t> address;
  std::vector<std::int64_t> size_bytes;
  std::vector<std::int32_t> channel;
  std::vector<std::uint8_t> pseudo_channel;
  std::vector<std::uint8_t> stack_id;
  std::vector<std::uint8_t> bank_group;
  std::vector<std::uint8_t> bank;
  std::vector<std::int32_t> row;
  std::vector<std::int32_t> column;

  [[nodiscard]] std::size_t rows() const { return arrive_tick.size(); }
};

// Ticks per request: the first burst's acceptance and issue, the last burst's end.
struct RequestResults {
  std::vector<std::int64_t> accept_tick;
  std::vector<std::int64_t> issue_tick;
  std::vector<std::int64_t> done_tick;
  std::vector<std::uint8_t> row_result;  // RowResult of the burst issued first
};

// A consumer of reads: of a pseudo-channel at most so many are on their way to it or with it, and it has done with one
// `ticks` after the last beat, in the order in which they were issued.
struct ReturnBuffer {
  std::int32_t slots = 0;  // 0: any number
  std::int64_t ticks = 0;
};

struct LoggedCommand {
  std::int32_t channel = 0;
  IssuedCommand command;
};

class Replay {
 public:
  // std::invalid_argument for a bad configuration. The table has been checked: every coordinate exists. With `skipping`
  // stretches that come again are not simulated again; every result is the same.
  Replay(const ChannelConfig& config, int channels, RequestTable table, std::optional<AddressMap> map, bool skipping);

  // Before the first run(), without skipping. The channels then go event by event, as in a system.
  void set_return_buffer(const ReturnBuffer& buffer);

  // Simulates about `events` controller events; true when everything is done.
  bool run(std::int64_t events);

  [[nodiscard]] std::int64_t finished_bursts() const { return finished_; }
  // Of those, the ones that were not simulated.
  [[nodiscard]] std::int64_t skipped_bursts() const { return skipped_; }
  // Whether the requests of some queue pair were seen to repeat themselves.
  [[nodiscard]] bool periodic() const { return periodic_; }
  [[nodiscard]] const RequestResults& results() const { return results_; }
  [[nodiscard]] std::int64_t total_ticks() const { return last_done_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] const Channel& channel(int c) const { return *controllers_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] const std::vector<LoggedCommand>& commands() const { return commands_; }

 private:
  struct Cursor {        // a place in the bursts of a stream
    std::size_t at = 0;  // next row (address table) or next entry of `rows` (coordinate table)
    bool in_row = false;
    bool have = false;          // `next` and what follows are of the next burst
    std::uint64_t address = 0;  // from here on the one behind `next` is looked for
    std::uint64_t end = 0;
    std::uint64_t found = 0;    // address of `next`
    std::int64_t ordinal = -1;  // of `next` among the bursts of its stream
    std::uint32_t row = 0;      // of the table
    Request next;
    std::int64_t arrive = 0;
  };
  struct Span {
    std::int64_t first = 0;  // ordinal
    std::uint32_t row = 0;   // of the table
  };
  // Bursts in front of the cursor that the channel takes by itself.
  struct Batch {
    std::vector<Request> requests;
    std::vector<std::int64_t> arrive;
    std::vector<std::int64_t> accepted;
    std::vector<std::uint32_t> row;
    std::vector<std::uint64_t> found;  // of an address table
    std::size_t count = 0;
    std::size_t taken = 0;
    Cursor from;  // of the first one

    [[nodiscard]] bool all_taken() const { return taken == count; }
  };
  // The bursts one queue pair of a channel is offered, in row order.
  struct Stream : Cursor {
    std::vector<std::uint32_t> rows;
    std::vector<Span> spans;  // where the rows of an address table begin
    std::uint64_t select_mask = 0;
    std::uint64_t select_value = 0;
    std::int64_t bursts_per_dram_row = 0;  // of a plain address range, through all banks; 0: no such count
    int pc = -1;                           // -1: every pseudo-channel
    bool blocked = false;
    bool turns = false;  // of such a range: its requests turn as the layout has it
    Batch batch;
  };
  // A macro-step that is being recorded.
  struct Recording {
    bool on = false;
    bool waited = false;  // for a request that came in later
    std::int64_t tick = 0;
    std::int64_t issued = 0;
    std::int64_t most_postponed = 0;
    Origin origin;
    std::int64_t next_refresh = 0;
    std::vector<Cursor> from;
    MacroStep step;
    Statistics before;

    void accepted(std::size_t stream, const Request& request, std::int64_t arrive, std::int64_t at);
    void finished(const Completion& c);
  };
  // How the requests of a period go on: after `bursts` of the first stream they come again in other banks.
  struct Layout {
    std::int64_t bursts = 0;
    std::vector<BankTurn> turns;  // the first one leaves all names as they are

    bool operator==(const Layout&) const = default;
  };

  void start_channel();
  void fetch(const Stream& s, Cursor& c) const;
  void fetch_address(const Stream& s, Cursor& c) const;
  static void name(const Stream& s, Cursor& c);
  void fetch(Stream& s);
  void offer(std::int64_t boundary);
  [[nodiscard]] bool serves() const;
  // Where the first stream is to stop, for a period is looked for or a macro-step ends; an ordinal.
  [[nodiscard]] std::int64_t stop_at() const { return period_ == 0 ? look_at_ : boundary_at_; }
  [[nodiscard]] std::size_t place_of(const Stream& s) const { return static_cast<std::size_t>(&s - streams_.data()); }
  std::int64_t serve();
  void fill(Stream& s);
  void fill_rows(Stream& s, std::int64_t most);
  [[nodiscard]] static std::uint64_t tag_of(const Stream& s, std::int64_t ordinal) {
    return static_cast<std::uint64_t>(ordinal) << 1 | static_cast<std::uint64_t>(s.pc > 0);
  }
  void step_with_buffer();
  void give_back(Channel& controller, std::int64_t before);
  void put_back(Stream& s);
  [[noreturn]] void stands_still() const;
  void collect();
  void finish(const Completion& c);
  [[nodiscard]] std::uint32_t row_of(std::uint64_t tag) const {
    if (map_) return span_of(tag);
    return streams_[streams_.size() > 1 ? tag & 1 : 0].rows[static_cast<std::size_t>(tag >> 1)];
  }
  [[nodiscard]] std::uint32_t span_of(std::uint64_t tag) const;

  // -- macro-steps
  void at_boundary(std::int64_t tick);
  void find_period(std::int64_t tick);
  void find_layout();
  bool turns(const std::vector<Request>& lead, std::int64_t bursts, std::int32_t rows, Layout& layout);
  [[nodiscard]] std::vector<Request> bursts_from(const Stream& s, std::int64_t count) const;
  [[nodiscard]] int bank_of(const Request& r) const {
    return (r.stack_id * config_.bank_groups + r.bg) * config_.banks_per_group + r.bank;
  }
  void set_bank(Request& r, int bank) const;
  void to_names(Request& r, const Origin& origin) const;
  void to_banks(Request& r, const Origin& origin) const;
  [[nodiscard]] bool is_named(const Request& named, const Request& r, const Origin& origin) const;
  [[nodiscard]] std::size_t turn_at(std::int64_t ordinal) const;
  [[nodiscard]] std::int64_t period_from(const Stream& s, std::int64_t tick) const;
  void start_recording(const Origin& origin, std::size_t form);
  void finish_recording(const Origin& end, std::size_t form);
  void abandon_recording();
  [[nodiscard]] Origin origin_at(std::int64_t tick, const Cursor& lead) const;
  [[nodiscard]] bool all_wait() const;
  int repeat(Origin& origin, std::size_t& form);
  [[nodiscard]] std::size_t known_step(const Origin& origin, std::size_t form);
  [[nodiscard]] bool comes_again(const MacroStep& step, const Origin& origin);
  [[nodiscard]] std::int64_t phase_of(const Stream& s, const Cursor& c, std::size_t turn) const;
  [[nodiscard]] std::uint64_t distance_of(const Stream& s, std::int64_t bursts) const;
  [[nodiscard]] Statistics gained_in_repeats();
  void remember_repeats();
  void emit(std::size_t which, const Origin& origin);

  ChannelConfig config_;
  int channels_;
  RequestTable table_;
  std::optional<AddressMap> map_;
  RequestResults results_;
  std::vector<std::unique_ptr<Channel>> controllers_;
  std::vector<LoggedCommand> commands_;
  std::vector<Stream> streams_;
  std::vector<std::vector<std::uint32_t>> rows_of_;  // coordinate table: rows of each (channel, queue pair)
  bool skipping_;
  bool takes_only_with_room_;     // a full queue refuses every request
  std::uint64_t row_stride_ = 0;  // address bits from here on are the row, and nothing else depends on them
  MacroSteps steps_;
  Recording recording_;
  std::int64_t period_ = 0;       // bursts of the first stream until it comes again; 0: none is known
  std::int64_t period_from_ = 0;  // ordinal of the first stream at which one begins
  std::int64_t step_ = 0;         // bursts of the first stream in a macro-step
  std::vector<Layout> layouts_;
  std::size_t layout_ = 0;        // of this period
  std::int64_t boundary_at_ = 0;  // ordinal of the first stream
  std::int64_t look_at_ = 0;      // ordinal at which a period is looked for
  std::int64_t resume_at_ = -1;   // the boundary at which macro-steps go on
  std::int64_t misses_ = 0;       // macro-steps recorded since the last that came again
  std::int64_t skipped_ = 0;
  bool periodic_ = false;
  std::vector<std::int32_t> form_;
  std::vector<std::int32_t> refresh_;
  std::vector<Cursor> ends_;  // of the macro-step that comes again
  std::vector<IssuedCommand> moved_;
  int now_channel_ = -1;
  std::int64_t boundary_ = 0;  // up to here all is done
  bool serving_ = false;       // the channel takes requests by itself, out of the batches
  // Reads that a finite buffer holds, by pseudo-channel, and when their slots are free.
  struct Returns {
    std::vector<std::int64_t> at;  // a ring as long as there are slots
    std::int32_t first = 0;
    std::int32_t held = 0;
    std::int64_t next = kNeverTick;  // the first of them
    std::int64_t last = 0;

    void add(std::int64_t tick, std::int32_t slots) {
      last = std::max(last, tick);
      if (held == 0) next = last;
      const std::int32_t behind = first + held++;
      at[static_cast<std::size_t>(behind < slots ? behind : behind - slots)] = last;
    }
    void drop(std::int32_t slots) {
      first = first + 1 == slots ? 0 : first + 1;
      next = --held == 0 ? kNeverTick : at[static_cast<std::size_t>(first)];
    }
  };
  ReturnBuffer buffer_;
  bool event_by_event_ = false;
  std::array<Returns, kMaxPseudoChannels> returns_;
  std::vector<Offers> offers_;
  std::vector<Stream*> offering_;
  std::int64_t arrival_ = kNeverTick;  // of the next burst that is not held back by a full queue
  // Repeats whose commands the channel has not been told.
  struct Repeated {
    std::size_t step = 0;
    Origin origin;
  };
  std::vector<Repeated> repeated_;
  std::vector<std::pair<std::size_t, const BankTurn*>> kinds_;
  bool left_ = false;     // bursts to be offered
  bool blocked_ = false;  // and some held back by a full queue
  bool closing_ = false;
  std::int64_t last_done_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace cosim::mem
