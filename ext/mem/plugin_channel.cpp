#include "mem/plugin_channel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "sim/canonical.hpp"

namespace cosim::mem {

namespace {

constexpr std::size_t kErrorBytes = 512;
constexpr std::size_t kBatch = 64;  // completions and commands asked for at once

}  // namespace

std::unique_ptr<Channel> MemoryPlugin::create(const ChannelConfig& config) const {
  return std::make_unique<PluginChannel>(*this, config);
}

PluginChannel::PluginChannel(const MemoryPlugin& plugin, const ChannelConfig& config)
    : plugin_(plugin), config_(config) {
  std::memcpy(&table_, plugin_.table, std::min<std::size_t>(plugin_.table->struct_size, sizeof(table_)));
  bank_counters_.resize(static_cast<std::size_t>(config.pseudo_channels) * static_cast<std::size_t>(config.banks()));
  asked_.struct_size = sizeof(asked_);
  asked_.pseudo_channels = static_cast<std::uint32_t>(config.pseudo_channels);
  asked_.stack_ids = static_cast<std::uint32_t>(config.stack_ids);
  asked_.bank_groups = static_cast<std::uint32_t>(config.bank_groups);
  asked_.banks_per_group = static_cast<std::uint32_t>(config.banks_per_group);
  asked_.rows = static_cast<std::uint32_t>(config.rows);
  asked_.columns = static_cast<std::uint32_t>(config.columns);
  asked_.access_bytes = static_cast<std::uint32_t>(config.access_bytes);
  asked_.ticks_per_cycle = static_cast<std::uint32_t>(config.slots_per_cycle);
  asked_.capacity_bytes = static_cast<std::uint64_t>(config.pseudo_channels) *
                          static_cast<std::uint64_t>(config.banks()) * static_cast<std::uint64_t>(config.rows) *
                          static_cast<std::uint64_t>(config.columns) * static_cast<std::uint64_t>(config.access_bytes);
  asked_.peak_bytes_per_second = plugin_.peak_bytes_per_second;
  asked_.tick_fs_num = plugin_.tick_fs_num;
  asked_.tick_fs_den = plugin_.tick_fs_den;
  asked_.preset = plugin_.preset.c_str();
  std::array<char, kErrorBytes> error{};
  const std::int32_t status = table_.create(&asked_, plugin_.params.c_str(), &self_, error.data(), error.size());
  if (status != COSIM_OK) {
    error.back() = '\0';
    throw std::invalid_argument("the memory plug-in '" + name() +
                                "' refuses this memory: " + (error[0] != '\0' ? error.data() : "no reason given") +
                                " (status " + std::to_string(status) + ")");
  }
  const std::uint64_t next = table_.next_event(self_);
  next_ = next == COSIM_NEVER ? kNeverTick : static_cast<std::int64_t>(next);
}

PluginChannel::~PluginChannel() { table_.destroy(self_); }

void PluginChannel::fail(const std::string& what) const {
  throw MemoryPluginError("memory plug-in '" + name() + "': " + what + " (tick " + std::to_string(now_) + ")");
}

void PluginChannel::learn_next() {
  const std::uint64_t next = table_.next_event(self_);
  next_ = next == COSIM_NEVER ? kNeverTick : static_cast<std::int64_t>(next);
  if (next_ <= advanced_) {
    fail("next_event is tick " + std::to_string(next_) + ", expected one after the last advance or COSIM_NEVER");
  }
}

bool PluginChannel::can_accept(Op op, int pc) const {
  const auto at = static_cast<std::size_t>(pc);
  return waiting_[at].used == 0 && (op == Op::write || slots_[at] > 0);
}

bool PluginChannel::offer(const Request& request, std::int64_t tick) {
  cosim_memory_request asked{};
  asked.struct_size = sizeof(asked);
  asked.op = request.op == Op::write ? COSIM_MEMORY_WRITE : COSIM_MEMORY_READ;
  asked.id = ids_;
  asked.pseudo_channel = request.pc;
  asked.stack_id = request.stack_id;
  asked.bank_group = request.bg;
  asked.bank = request.bank;
  asked.row = static_cast<std::uint32_t>(request.row);
  asked.column = static_cast<std::uint32_t>(request.column);
  asked.class_id = request.message_class;
  std::uint64_t at = request.pc;
  at = at * asked_.stack_ids + asked.stack_id;
  at = at * asked_.bank_groups + asked.bank_group;
  at = at * asked_.banks_per_group + asked.bank;
  const std::uint64_t bank = at;
  at = at * asked_.rows + asked.row;
  at = at * asked_.columns + asked.column;
  asked.offset = at * asked_.access_bytes;
  now_ = std::max(now_, tick);
  const std::int32_t said = table_.accept(self_, &asked, static_cast<std::uint64_t>(tick));
  if (said < 0 || said > 1) {
    fail("accept returned " + std::to_string(said) + " for burst " + std::to_string(ids_) + ", expected 1 or 0");
  }
  if (said == 0) return false;
  Burst burst;
  burst.id = ids_++;
  burst.tag = request.tag;
  burst.accepted = tick;
  burst.pc = request.pc;
  burst.op = request.op;
  burst.message_class = request.message_class;
  under_way_.push_back(burst);
  BankCounters& counter = bank_counters_[bank];
  counter.bytes += config_.access_bytes;
  ++(request.op == Op::write ? counter.wr : counter.rd);
  learn_next();
  return true;
}

void PluginChannel::accept(const Request& request, std::int64_t tick) {
  ++counters_.asked;
  if (request.op == Op::read && slots_[request.pc] != kNoLimit) --slots_[request.pc];
  if (offer(request, tick)) return;
  waiting_[request.pc].request = request;
  waiting_[request.pc].used = 1;
}

bool PluginChannel::try_accept(const Request& request, std::int64_t tick) {
  if (!can_accept(request.op, request.pc) || !offer(request, tick)) return false;
  ++counters_.asked;
  if (request.op == Op::read && slots_[request.pc] != kNoLimit) --slots_[request.pc];
  return true;
}

void PluginChannel::offer_waiting(std::int64_t tick) {
  for (Waiting& each : waiting_) {
    if (each.used != 0 && offer(each.request, tick)) each.used = 0;
  }
}

void PluginChannel::take(const cosim_memory_completion& done, std::int64_t tick) {
  const auto found = std::lower_bound(under_way_.begin(), under_way_.end(), done.id,
                                      [](const Burst& burst, std::uint64_t id) { return burst.id < id; });
  const std::string who =
      "burst " + std::to_string(done.id) + " is said to be done at tick " + std::to_string(done.tick);
  if (found == under_way_.end() || found->id != done.id) fail(who + ", but no burst of this id is under way");
  const auto when = static_cast<std::int64_t>(done.tick);
  if (when <= found->accepted || when > tick) {
    fail(who + ", expected after tick " + std::to_string(found->accepted) + ", when it was accepted, and by now");
  }
  Completion completion;
  completion.tag = found->tag;
  completion.issue_tick = found->accepted;
  completion.done_tick = when;
  completion.pc = found->pc;
  completion.op = found->op;
  completion.message_class = found->message_class;
  ++(found->op == Op::write ? counters_.served_writes : counters_.served_reads);
  under_way_.erase(found);
  completions.push_back(completion);
}

void PluginChannel::advance(std::int64_t tick) {
  now_ = advanced_ = tick;
  const std::int32_t status = table_.advance(self_, static_cast<std::uint64_t>(tick));
  if (status != COSIM_OK) fail("advance returned the error " + std::to_string(status));
  std::array<cosim_memory_completion, kBatch> batch{};
  for (std::int32_t count = 1; count > 0;) {
    count = table_.pop(self_, batch.data(), kBatch);
    if (count < 0 || static_cast<std::size_t>(count) > kBatch) {
      fail("pop returned " + std::to_string(count) + ", expected 0 to " + std::to_string(kBatch));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) take(batch[i], tick);
  }
  if (config_.log_commands) log_commands();
  learn_next();
  offer_waiting(tick);
}

void PluginChannel::log_commands() {
  if (table_.pop_command == nullptr || (table_.caps & COSIM_CAP_COMMANDS) == 0) return;
  std::array<cosim_memory_command, kBatch> batch{};
  for (std::int32_t count = 1; count > 0;) {
    count = table_.pop_command(self_, batch.data(), kBatch);
    if (count < 0 || static_cast<std::size_t>(count) > kBatch) {
      fail("pop_command returned " + std::to_string(count) + ", expected 0 to " + std::to_string(kBatch));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::string_view said = batch[i].command;
      const auto* const known = std::find(kCommandNames.begin(), kCommandNames.end(), said);
      if (known == kCommandNames.end()) fail("pop_command names the unknown command '" + std::string(said) + "'");
      const bool all = batch[i].bank == UINT32_MAX;
      if (batch[i].pseudo_channel >= asked_.pseudo_channels ||
          (!all && batch[i].bank >= static_cast<std::uint32_t>(config_.banks()))) {
        fail("pop_command names a pseudo-channel or bank that is not there");
      }
      IssuedCommand command;
      command.tick = static_cast<std::int64_t>(batch[i].tick);
      command.command = static_cast<Command>(known - kCommandNames.begin());
      command.pc = static_cast<std::uint8_t>(batch[i].pseudo_channel);
      command.bank = all ? std::int16_t{-1} : static_cast<std::int16_t>(batch[i].bank);
      command.row = static_cast<std::int32_t>(batch[i].row);
      command.column = static_cast<std::int32_t>(batch[i].column);
      commands.push_back(command);
    }
  }
}

void PluginChannel::release_slot(int pc, std::int64_t /*tick*/) {
  std::int32_t& slots = slots_[static_cast<std::size_t>(pc)];
  if (slots != kNoLimit) ++slots;
}

std::int64_t PluginChannel::cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) {
  std::int64_t taken_back = 0;
  for (Waiting& each : waiting_) {
    if (each.used == 0 || each.request.tag < first_tag || each.request.tag > last_tag) continue;
    each.used = 0;
    if (each.request.op == Op::read) release_slot(each.request.pc, tick);
    ++taken_back;
  }
  counters_.cancelled += taken_back;
  return taken_back;
}

std::int64_t PluginChannel::queued() const {
  return static_cast<std::int64_t>(under_way_.size()) +
         std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& each) { return each.used != 0; });
}

BankCounters PluginChannel::bank_counters(int pc, int bank, std::int64_t /*tick*/) const {
  return bank_counters_[static_cast<std::size_t>(pc) * static_cast<std::size_t>(config_.banks()) +
                        static_cast<std::size_t>(bank)];
}

std::string PluginChannel::verify_conservation() const {
  const std::int64_t known = counters_.served_reads + counters_.served_writes + counters_.cancelled + queued();
  if (counters_.asked == known) return {};
  return std::to_string(counters_.asked) + " bursts asked for, " + std::to_string(known) +
         " served, called off or under way";
}

std::string PluginChannel::describe_wait() const {
  return std::to_string(under_way_.size()) + " bursts in the memory plug-in '" + name() + "', " +
         std::to_string(queued() - static_cast<std::int64_t>(under_way_.size())) +
         " that it refused; its next event is " + (next_ == kNeverTick ? "never" : "tick " + std::to_string(next_));
}

void PluginChannel::visit(sim::Visitor& v) {
  using sim::Kind;
  if (table_.save == nullptr) {
    throw std::runtime_error("the memory plug-in '" + name() + "' has no save and load: a run with it cannot be saved");
  }
  v.value(Kind::stamp, now_);
  v.value(Kind::stamp, advanced_);
  v.value(Kind::stamp, next_);
  v.value(Kind::state, ids_);
  v.vector(Kind::stamp, under_way_);
  v.value(Kind::state, waiting_);
  v.value(Kind::state, slots_);
  v.value(Kind::counter, counters_);
  v.vector(Kind::counter, bank_counters_);
  std::vector<std::uint8_t> state(table_.save(self_, nullptr, 0));
  if (table_.save(self_, state.data(), state.size()) != state.size()) {
    throw std::runtime_error("the memory plug-in '" + name() + "' saves another size than it said");
  }
  const std::vector<std::uint8_t> before = state;
  v.vector(Kind::state, state);
  if (state != before && table_.load(self_, state.data(), state.size()) != COSIM_OK) {
    throw std::runtime_error("the memory plug-in '" + name() + "' cannot load what it has saved");
  }
}

// What its state means is not known: equal bytes need not have equal futures, nor unequal ones different futures.
void PluginChannel::walk(sim::Canonical& c, const sim::Present&, RequestNames&) { c.refuse("a memory is a plug-in"); }

}  // namespace cosim::mem
