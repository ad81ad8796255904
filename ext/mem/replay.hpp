// Plays a table of requests through the channels of a memory: what `run_requests` does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mem/address_map.hpp"
#include "mem/channel.hpp"
#include "mem/channel_config.hpp"

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

struct LoggedCommand {
  std::int32_t channel = 0;
  IssuedCommand command;
};

class Replay {
 public:
  // std::invalid_argument for a bad configuration. The table has been checked: every coordinate exists.
  Replay(const ChannelConfig& config, int channels, RequestTable table, std::optional<AddressMap> map);

  // Simulates about `events` controller events; true when everything is done.
  bool run(std::int64_t events);

  [[nodiscard]] std::int64_t finished_bursts() const { return finished_; }
  [[nodiscard]] const RequestResults& results() const { return results_; }
  [[nodiscard]] std::int64_t total_ticks() const { return last_done_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] const Channel& channel(int c) const { return *controllers_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] const std::vector<LoggedCommand>& commands() const { return commands_; }

 private:
  // The bursts one queue pair of a channel is offered, in row order.
  struct Stream {
    std::size_t at = 0;  // next row (address table) or next entry of `rows` (coordinate table)
    std::vector<std::uint32_t> rows;
    bool in_row = false;
    std::uint64_t address = 0;  // of the next burst
    std::uint64_t end = 0;
    std::uint64_t select_mask = 0;
    std::uint64_t select_value = 0;
    int pc = -1;        // -1: every pseudo-channel
    bool have = false;  // `next` and `arrive` hold the next burst
    bool blocked = false;
    Request next;
    std::int64_t arrive = 0;
  };

  void start_channel();
  void fetch(Stream& s);
  void offer(std::int64_t boundary);
  void collect();

  ChannelConfig config_;
  int channels_;
  RequestTable table_;
  std::optional<AddressMap> map_;
  RequestResults results_;
  std::vector<std::unique_ptr<Channel>> controllers_;
  std::vector<LoggedCommand> commands_;
  std::vector<Stream> streams_;
  std::vector<std::vector<std::uint32_t>> rows_of_;  // coordinate table: rows of each (channel, queue pair)
  int now_channel_ = -1;
  std::int64_t arrival_ = kNeverTick;  // of the next burst that is not held back by a full queue
  bool left_ = false;                  // bursts to be offered
  bool closing_ = false;
  std::int64_t last_done_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace cosim::mem
