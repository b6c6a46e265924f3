#pragma once
// An inbox of actions, and runs of actions as clients send them.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "replication/action/action.h"
#include "replication/action/action_inbox.h"

namespace shoal::replication::impl::action_desk {

struct Row {
    std::uint32_t strokes = 0;
};
struct Chat {
    std::uint32_t word = 0;
};
struct Novel {
    std::vector<std::uint8_t> text;
};

inline Schema inbox_schema() {
    Schema schema;
    schema.action<Row>("row");
    schema.action<Chat>("chat", independent());
    schema.action<Novel>("novel", max_length(400));
    EXPECT_EQ(schema.error(), "");
    return schema;
}

struct SentRun {
    std::uint32_t first = 0;
    std::uint8_t epoch = 0;
    std::vector<ActionRecord> records;
};

struct Desk {
    template <class T>
    ActionRecord record(std::uint32_t number) const {
        return {static_cast<std::uint8_t>(schema.find_struct<T>(StructKind::action)), 7, 0, 0, {}, {number}};
    }
    template <class T = Row>
    SentRun run(std::uint32_t first, std::uint32_t count, std::uint8_t epoch = 0) const {
        SentRun out{first, epoch, {}};
        for (std::uint32_t i = 0; i < count; ++i) out.records.push_back(record<T>(first + i));
        return out;
    }
    bool read(const std::optional<SentRun>& ordered, const std::optional<SentRun>& independent = {}) {
        BitWriter out;
        for (const std::optional<SentRun>* const run : {&ordered, &independent}) {
            out.write_bool(run->has_value());
            if (*run) write_actions(schema, {(*run)->first, (*run)->epoch, (*run)->records}, out);
        }
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        return inbox.read(schema, in);
    }
    bool take(const std::optional<SentRun>& ordered, const std::optional<SentRun>& independent = {}) {
        return read(ordered, independent) && inbox.commit();
    }
    std::vector<std::uint32_t> waiting(ActionStream stream = ActionStream::ordered) const {
        std::vector<std::uint32_t> numbers;
        for (const ActionRecord& record : inbox.waiting(stream)) numbers.push_back(record.words[0]);
        return numbers;
    }

    const Schema schema = inbox_schema();
    ActionInbox inbox;
};

using Words = std::vector<std::uint32_t>;

}  // namespace shoal::replication::impl::action_desk
