#include "action_inbox.h"

#include <cassert>

namespace shoal::replication::impl {

bool ActionInbox::read(const Schema& schema, BitReader& in) {
    bool is_empty = true;
    for (std::size_t i = 0; i < kActionStreams; ++i) {
        const Stream& stream = streams_[i];
        Staged& staged = staged_[i];
        staged.is_used = in.read_bool();
        if (!staged.is_used) continue;
        is_empty = false;
        if (!read_actions(schema, stream.next, in, staged.records, staged.run)) return false;
        const bool is_gap = static_cast<std::int32_t>(staged.run.first - stream.next) > 0;
        const int newer = static_cast<std::int8_t>(staged.run.epoch - stream.epoch);
        if (newer > 0 || (newer == 0 && is_gap)) return false;
        for (const ActionRecord& record : staged.records) {
            const bool is_independent = schema.structs(StructKind::action)[record.type].is_independent;
            if (is_independent != (i == static_cast<std::size_t>(ActionStream::independent))) return false;
            if (is_independent && record.created > 0) return false;
        }
    }
    return !is_empty;
}

bool ActionInbox::commit() {
    for (std::size_t i = 0; i < kActionStreams; ++i) {
        Stream& stream = streams_[i];
        Staged& staged = staged_[i];
        if (!staged.is_used) continue;
        std::uint32_t sequence = staged.run.first;
        for (ActionRecord& record : staged.records) {
            if (staged.run.epoch != stream.epoch || sequence++ != stream.next) {
                ignored_ += 1;
                continue;
            }
            if (stream.waiting.size() >= kMaxWaitingActions) return false;
            stream.waiting.push_back(std::move(record));
            stream.next += 1;
        }
    }
    return true;
}

bool ActionInbox::has_run(const EarlierActions& actions) const {
    for (std::size_t i = 0; i < kActionStreams; ++i) {
        // After a rejection the later actions of the ordered stream are dropped.
        const bool is_ordered = i == static_cast<std::size_t>(ActionStream::ordered);
        if (is_ordered && actions.epoch != epoch()) continue;
        const auto first = static_cast<std::uint16_t>(sequence(static_cast<ActionStream>(i)));
        if (static_cast<std::int16_t>(first - actions.next[i]) < 0) return false;
    }
    return true;
}

std::size_t ActionInbox::reject() {
    Stream& ordered = at(ActionStream::ordered);
    assert(!ordered.waiting.empty());
    const std::size_t dropped = ordered.waiting.size() - 1;
    ordered.next = sequence(ActionStream::ordered) + 1;
    ordered.waiting.clear();
    ordered.epoch = static_cast<std::uint8_t>(ordered.epoch + 1);
    return dropped;
}

}  // namespace shoal::replication::impl
