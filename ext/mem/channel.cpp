#include "mem/channel.hpp"

#include "mem/controller.hpp"
#include "mem/sram.hpp"

namespace cosim::mem {

std::unique_ptr<Channel> make_channel(const ChannelConfig& config) {
  if (config.plugin != nullptr) return config.plugin->create(config);
  if (config.kind == MemoryKind::sram) return std::make_unique<Sram>(config);
  return std::make_unique<Controller>(config);
}

}  // namespace cosim::mem
