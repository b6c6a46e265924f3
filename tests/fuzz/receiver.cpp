// A server that lies to a client. The input says which payloads reach a Receiver: those of two senders with
// worlds of their own, unchanged, damaged, cut, repeated, or in packets with other numbers; payloads with
// headers and records that the input builds; and any bytes. It also says which messages the client gets.
// After each operation the receiver must be consistent and within its limits. After reset() it must work as a
// new one.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "replication/message/message_queue.h"
#include "tests/fuzz/replication_parts.h"

using namespace shoal::replication::impl;
using namespace shoal::replication::impl::fuzz;
using shoal::net::impl::ByteReader;

namespace {

/// Writes bits in the format of state payloads, without the library's own functions, which assert that their
/// arguments are valid.
class LyingBits {
public:
    void bits(std::uint64_t value, unsigned count) {
        for (unsigned i = 0; i < count; ++i, ++size_) {
            if (size_ % 8 == 0) bytes_.push_back(std::byte{0});
            if (value >> i & 1) bytes_.back() |= std::byte(1u << size_ % 8);
        }
    }
    void golomb(std::uint32_t value, unsigned k) {
        unsigned prefix = 0;
        while (prefix < 12 && value >= ((std::uint64_t{2} << prefix) - 1) << k) ++prefix;
        bits(0xFFF, prefix);
        if (prefix == 12) return bits(value, 32);
        bits(0, 1);
        bits(value - (((std::uint64_t{1} << prefix) - 1) << k), prefix + k);
    }
    const Payload& bytes() const { return bytes_; }

private:
    Payload bytes_;
    std::size_t size_ = 0;
};

class Deception {
public:
    explicit Deception(std::span<const std::byte> input)
        : in_(input),
          options_(options_of(in_.u8())),
          flags_(in_.u8()),
          schema_(fuzz_schema(!(flags_ & 2))),
          receiver_(world_, schema_, options_),
          honest_(of_server_, 1),
          other_(of_server_, flags_ & 1 ? 1 : 0xffffffd0) {
        for (int i = 0; i < 3; ++i) own_.push_back(world_.spawn(Place{1, 2}, Marked{}));
        for (std::uint32_t key = 1; key < kFuzzKeys; ++key)
            loaded_.push_back(world_.spawn(Place{3, 4}, StableKey{key}));
        messages_.set_handler<Shout>([this](const Shout& shout, const MessageInfo&) {
            CHECK(shout.text.size() <= 12 && shout.about.size() <= 16 && shout.kind <= 4);
            for (const shoal::ecs::Entity entity : shout.about) CHECK(!entity || world_.is_alive(entity));
        });
        for (Origin* origin : {&honest_, &other_}) (void)origin->add_peer(schema_, options_.max_slots);
    }

    void run() {
        while (in_.ok() && in_.remaining() > 0) {
            step();
            check_limits();
        }
        receiver_.reset();
        receiver_.apply();
        CHECK(world_.size() == own_.size() + unmatched());
        CHECK(!receiver_.complete() && !receiver_.newest_tick() && receiver_.decoder().rebases().empty());
        if (options_.max_slots >= 64 && options_.max_held_bytes >= 1 << 20)
            check_new_client_converges(honest_, schema_, world_, receiver_);
        CHECK(receiver_.is_consistent());
        for (const shoal::ecs::Entity entity : own_)
            CHECK(world_.is_alive(entity) && world_.has<Marked>(entity) && world_.get<Place>(entity).y == 2);
    }

private:
    static constexpr std::uint32_t kFirstReserved = 0xff000000;

    struct Sent {
        std::uint64_t number;
        Payload payload;
    };

    static ReceiverOptions options_of(unsigned choice) {
        ReceiverOptions options;
        constexpr std::uint32_t kSlots[] = {500, 64, 5, 1};
        constexpr std::uint32_t kVersions[] = {256, 4, 5, 16};
        options.max_slots = kSlots[choice % 4];
        options.max_versions = kVersions[choice / 4 % 4];
        options.max_held_bytes = choice & 128 ? 20'000 : 4 << 20;
        return options;
    }

    void step() {
        const unsigned op = in_.u8();
        Origin& origin = op & 64 ? other_ : honest_;
        switch (op % 16) {
            case 0:
            case 1:
                return origin.change(in_);
            case 2:
            case 3:
                return send(origin, op);
            case 4:
            case 5: {
                const Sent& sent = chosen();
                return deliver(op & 128 ? fresh_number() : sent.number, sent.payload);
            }
            case 6: {
                const Sent& sent = chosen();
                return deliver(sent.number, damaged(sent.payload));
            }
            case 7: {
                Payload cut = chosen().payload;
                cut.resize(in_.u8() % (cut.size() + 1));
                return deliver(fresh_number(), cut);
            }
            case 8:
            case 9: {
                const std::uint64_t number = fresh_number();
                return deliver(number, built());
            }
            case 10: {
                const auto bytes = in_.bytes(std::min<std::size_t>(in_.u8(), in_.remaining()));
                if (op & 128) return hear(bytes);
                return deliver(fresh_number(), {bytes.begin(), bytes.end()});
            }
            case 11:
                if (op & 128) destroy_replica();
                return apply();
            case 12: {
                const auto rebases = receiver_.decoder().rebases();
                const std::size_t count = in_.u8() % (rebases.size() + 1);
                for (std::size_t i = 0; i < count; ++i) honest_.sender.rebase(0, rebases[i]);
                return receiver_.decoder().drop_rebases(count);
            }
            case 13:
                if ((op & 192) != 192) return apply();
                receiver_.reset();
                numbers_.clear();
                return;
            case 14:
                return settle(op & 32);
            default:
                return exchange(origin);
        }
    }

    /// Encodes a payload and keeps it.
    void send(Origin& origin, unsigned op) {
        origin.update(op & 128 ? 1 + in_.u8() : 1);
        number_ += op & 32 ? 1 + in_.u8() % 8 : 1;
        Payload room(1'200);
        const auto payload = origin.sender.encode(0, number_, op & 16 ? 1'200 : 60, room);
        if (payload.empty()) return;
        if (sent_.size() >= 64) sent_.erase(sent_.begin());
        sent_.push_back({number_, {payload.begin(), payload.end()}});
        (&origin == &honest_ ? unsettled_ : others_unsettled_).push_back(number_);
    }

    /// A payload that arrives at once, and whose fate the sender learns.
    void exchange(Origin& origin) {
        send(origin, 16);
        if (sent_.empty() || sent_.back().number != number_) return;
        const bool is_delivered = receives(number_, sent_.back().payload);
        origin.sender.on_fate(0, number_, is_delivered);
        (&origin == &honest_ ? unsettled_ : others_unsettled_).pop_back();
    }

    /// The sender learns the fate of a packet. It may be a lie.
    void settle(bool is_delivered) {
        for (auto [origin, unsettled] :
             {std::pair(&honest_, &unsettled_), std::pair(&other_, &others_unsettled_)}) {
            if (unsettled->empty()) continue;
            const std::size_t at = in_.u8() % unsettled->size();
            origin->sender.on_fate(0, (*unsettled)[at], is_delivered);
            unsettled->erase(unsettled->begin() + std::ptrdiff_t(at));
        }
    }

    const Sent& chosen() {
        static const Sent kNothing{1, {}};
        return sent_.empty() ? kNothing : sent_[sent_.size() - 1 - in_.u8() % sent_.size()];
    }
    std::uint64_t fresh_number() {
        const unsigned jump = in_.u8();
        if (jump < 128) return number_ += 1 + jump % 4;
        if (jump < 192 && number_ > jump) return number_ - (jump - 127);
        return number_ + std::uint64_t{jump} * jump;
    }
    Payload damaged(Payload payload) {
        for (unsigned flips = 1 + in_.u8() % 4; flips > 0 && !payload.empty(); --flips) {
            const std::size_t bit = in_.u16() % (payload.size() * 8);
            payload[bit / 8] ^= std::byte(1u << bit % 8);
        }
        return payload;
    }

    /// A number that is often small.
    std::uint32_t some() {
        const unsigned byte = in_.u8();
        return byte < 240 ? byte % 16 : byte < 250 ? in_.u8() : in_.u32();
    }

    /// Often a small number, or the net id of a key.
    std::uint32_t some_net_id() {
        const std::uint32_t number = some();
        return number >= 10 && number < 16 ? kFirstReserved + number - 10 : number;
    }

    /// A payload by the tables in replication/codec/.
    Payload built() {
        LyingBits out;
        const unsigned flags = in_.u8();
        out.bits(flags, 1);
        if (flags & 1) {
            out.golomb(some(), 2);
            out.golomb(some(), 2);
        } else {
            out.bits(flags & 2 ? honest_.tick + some() - 8 : in_.u32(), 32);
        }
        out.bits(flags >> 2, 1);
        if (flags & 4) {
            const std::uint32_t distance = some();
            out.golomb(distance, 2);
            if (distance > 0) out.golomb(some() % (flags & 8 ? 2 : ~0u), 0);
            out.golomb(some(), 0);
        }
        const std::uint32_t count = flags & 16 ? some() : flags >> 6;
        out.golomb(count, 3);
        out.bits(0, 1);  // no strings
        bool is_first = true;
        for (std::uint32_t i = 0; i < std::min(count, 16u); ++i) {
            const unsigned kind = in_.u8();
            out.golomb(kind & 4 ? some() : 0, 1);
            if (kind % 4 == 0) {
                out.bits(1, 1);
            } else if (kind % 4 == 1) {
                out.bits(2, 2);
                out.golomb(some(), 5);
            } else {
                out.bits(kind % 4 == 2 ? 4 : 0, 3);
                if (kind % 4 == 3) continue;
                if (is_first)
                    out.bits(some_net_id(), 32);
                else
                    out.golomb(some(), 2);
                is_first = false;
            }
            build_image(out, kind, kind % 4 == 2);
        }
        if (flags & 32) out.bits(in_.u8(), 8);
        return out.bytes();
    }
    void build_image(LyingBits& out, unsigned kind, bool is_full) {
        if (is_full) {
            const std::uint32_t components = kind & 8 ? some() : 1;
            out.golomb(components, 2);
            for (std::uint32_t i = 0; i < std::min(components, 8u); ++i)
                out.golomb(kind & 16 ? some() : 0, 0);
        } else {
            out.bits(kind >> 3, 1);
            if (kind & 8) {
                for (int list = 0; list < 2; ++list) {
                    const std::uint32_t components = some() % 4;
                    out.golomb(components, 0);
                    for (std::uint32_t i = 0; i < components; ++i) out.golomb(some() % 4, 0);
                }
            }
        }
        for (unsigned bytes = kind >> 5; bytes > 0; --bytes) out.bits(in_.u8(), kind & 32 ? 8 : 5);
    }

    /// A digest of all versions. A payload that is not accepted must not change it.
    std::uint64_t versions() const {
        std::uint64_t sum = 14695981039346656037u;
        const auto add = [&](std::uint64_t value) { sum = (sum ^ value) * 1099511628211u; };
        receiver_.for_each_version(
            [&](std::uint32_t slot, std::uint32_t net_id, Tick tick, const Image& image) {
                for (const std::uint64_t value : {slot, net_id, tick}) add(value);
                for (const std::uint32_t word : image.words) add(word);
            });
        return sum;
    }

    /// Each number once, as net/ does. Returns whether the payload was accepted.
    bool receives(std::uint64_t number, const Payload& payload) {
        if (number == 0 || !numbers_.insert(number).second) return false;
        const Payload exact(payload);
        const std::uint64_t before = versions();
        const Receiver::Stats stats = receiver_.stats();
        const Receiver::Verdict verdict = receiver_.receive(number, exact);
        const Receiver::Stats after = receiver_.stats();
        if (verdict == Receiver::Verdict::accepted) {
            CHECK(after.refused_packets == stats.refused_packets);
            CHECK(after.malformed_packets == stats.malformed_packets);
            CHECK(receiver_.newest_tick().has_value());
            return true;
        }
        CHECK(versions() == before);
        CHECK(after.records == stats.records && after.stale_records == stats.stale_records);
        if (verdict == Receiver::Verdict::refused) CHECK(after.refused_packets == stats.refused_packets + 1);
        if (verdict == Receiver::Verdict::malformed)
            CHECK(after.malformed_packets == stats.malformed_packets + 1);
        return false;
    }

    void deliver(std::uint64_t number, const Payload& payload) { (void)receives(number, payload); }

    void destroy_replica() {
        std::vector<shoal::ecs::Entity> replicas;
        receiver_.for_each_entity(
            [&](std::uint32_t, shoal::ecs::Entity entity) { replicas.push_back(entity); });
        if (!replicas.empty()) world_.destroy(replicas[in_.u8() % replicas.size()]);
    }

    /// Number of the entities that the game loaded which are not replicas.
    std::size_t unmatched() const {
        return static_cast<std::size_t>(
            std::count_if(loaded_.begin(), loaded_.end(), [&](shoal::ecs::Entity entity) {
                return world_.is_alive(entity) && !world_.has<Replica>(entity);
            }));
    }

    /// A message arrives, perhaps so often that it fills the queue.
    void hear(std::span<const std::byte> bytes) {
        const unsigned how = in_.u8();
        constexpr shoal::net::Channel kChannels[] = {
            shoal::net::Channel::unreliable, shoal::net::Channel::sequenced, shoal::net::Channel::reliable};
        const std::uint64_t malformed = messages_.stats().malformed;
        const int times = how / 16 == 15 ? 1'200 : 1;
        for (int i = 0; i < times; ++i) {
            const bool is_read = queue_.add(bytes, kChannels[how % 3]);
            CHECK(is_read || messages_.stats().malformed > malformed);
            CHECK(queue_.size() <= MessageQueue::kMaxMessages);
        }
    }

    void apply() {
        receiver_.apply();
        now_ += std::chrono::milliseconds(100);
        queue_.deliver(now_);
        std::size_t replicas = 0;
        receiver_.for_each_entity([&](std::uint32_t net_id, shoal::ecs::Entity entity) {
            replicas += 1;
            CHECK(receiver_.net_id(entity) == net_id && receiver_.entity(net_id) == entity);
        });
        CHECK(world_.size() == own_.size() + unmatched() + replicas);
        CHECK(replicas == receiver_.entity_count());
        check_components();
    }

    /// Each replica has the components of its newest version, and Replica. If it has a reserved net id, it
    /// has StableKey. Each of its pairs is a row.
    void check_components() {
        struct Count {
            std::size_t components = 1, pairs = 0;
        };
        std::map<std::uint32_t, Count> counts;
        receiver_.for_each_version([&](std::uint32_t, std::uint32_t net_id, Tick, const Image& image) {
            Count& count = counts[net_id] = Count{};
            if (net_id >= kFirstReserved) count.components += 1;
            ImageCursor cursor(schema_, image);
            for (const ComponentIndex component : image.shape->components) {
                if (!schema_.components()[component].pairs) {
                    count.components += 1;
                } else if (cursor.seek(component)) {
                    count.pairs += cursor.parts()[0];
                }
            }
        });
        receiver_.for_each_entity([&](std::uint32_t net_id, shoal::ecs::Entity entity) {
            CHECK(counts.contains(net_id));
            const auto ids = world_.components_of(entity);
            const auto is_pair = [](const auto id) { return id.is_pair(); };
            const std::size_t pairs =
                static_cast<std::size_t>(std::count_if(ids.begin(), ids.end(), is_pair));
            CHECK(ids.size() - pairs == counts[net_id].components);
            CHECK(pairs <= counts[net_id].pairs);
        });
    }

    void check_limits() {
        CHECK(receiver_.is_consistent());
        CHECK(honest_.sender.is_consistent() && other_.sender.is_consistent());
        std::size_t bytes = 0;
        std::map<std::uint32_t, std::uint32_t> count;  // of versions, by slot
        receiver_.for_each_version([&](std::uint32_t slot, std::uint32_t net_id, Tick, const Image& image) {
            CHECK(slot < options_.max_slots && net_id != 0);
            bytes += image.words.size_bytes();
            CHECK(++count[slot] <= options_.max_versions + 1);
        });
        CHECK(bytes <= options_.max_held_bytes);
        CHECK(receiver_.decoder().rebases().size() <= options_.max_slots);
        std::set<std::uint32_t> rebases;
        for (const std::uint32_t slot : receiver_.decoder().rebases()) {
            CHECK(slot < options_.max_slots);
            CHECK(rebases.insert(slot).second);
        }
    }

    ByteReader in_;
    ReceiverOptions options_;
    unsigned flags_;
    Schema of_server_ = fuzz_schema(), schema_;
    shoal::ecs::World world_;
    Receiver receiver_;
    std::vector<shoal::ecs::Entity> own_, loaded_;
    Origin honest_, other_;
    std::uint64_t number_ = 0;
    std::vector<Sent> sent_;
    std::vector<std::uint64_t> unsettled_, others_unsettled_;
    std::set<std::uint64_t> numbers_;  // that the receiver got
    struct References final : EntityMap {
        explicit References(const Receiver& of) : receiver(of) {}
        std::uint32_t to_net(shoal::ecs::Entity entity) override { return receiver.net_id(entity); }
        shoal::ecs::Entity to_entity(std::uint32_t net_id) override { return receiver.entity(net_id); }
        const Receiver& receiver;
    } references_{receiver_};
    TypedMessages messages_{schema_, references_};
    MessageQueue queue_{messages_, receiver_};
    shoal::net::Time now_{0};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > 4096) return 0;
    Deception all_of_it(std::as_bytes(std::span(data, size)));
    all_of_it.run();
    return 0;
}
