#include "endpoint/near_path.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/canonical.hpp"

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

NearPath::NearPath(const NearPathConfig& config) : config_(config) {
  if (config.bytes_per_second <= 0 || config.latency_fs < 0) {
    throw std::invalid_argument("a near-memory path needs a positive bandwidth and a latency that is not negative");
  }
}

void NearPath::evaluate(Fs t) {
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    if (m.kind != MessageKind::send) throw std::logic_error("a near-memory path cannot read this message");
    const Fs span = sim::transfer_fs(m.bytes, config_.bytes_per_second);
    // The send was committed the instant before; back to back messages follow each other without a gap.
    free_at_ = std::max(free_at_, t - 1) + span;
    busy_fs_ += span;
    moved_bytes_ += m.bytes;
    if ((m.flags & sim::kReplyWhenSent) != 0) {
      Message sent;
      sent.kind = MessageKind::sent;
      sent.c = m.address;
      post(static_cast<std::int32_t>(m.a), sent, free_at_);
    }
    Message there;
    there.kind = MessageKind::delivered;
    there.c = m.c;
    there.bytes = m.bytes;
    there.message_class = m.message_class;
    post(static_cast<std::int32_t>(m.b), there, free_at_ + config_.latency_fs);
  }
}

void NearPath::visit(sim::Visitor& v) {
  using sim::Kind;
  visit_mail(v);
  v.value(Kind::stamp, free_at_);
  v.value(Kind::counter, moved_bytes_);
  v.value(Kind::counter, busy_fs_);
}

void NearPath::canonical(sim::Canonical& c) {
  if (!c.lacks(sim::Part::path)) c.same(std::max<Fs>(free_at_ - c.now(), 0));  // the past is all one
  c.move(free_at_, c.shift_fs());
  c.grows(moved_bytes_);
  c.grows(busy_fs_);
  canonical_mail(c);
}

}  // namespace cosim::endpoint
