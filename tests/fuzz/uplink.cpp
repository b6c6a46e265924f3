// State payloads of players with any bits, at any time. A payload is used whole or not at all; a payload that
// a correct client wrote is accepted; each value that the game gets is one that the codec of the input
// allows; nothing that a player sends changes the entity of another one.

#include <algorithm>
#include <chrono>
#include <optional>

#include "replication/play/players.h"
#include "replication/predict/input_log.h"
#include "replication/predict/server_inputs.h"
#include "tests/fuzz/replication_parts.h"

using namespace shoal::replication::impl;
using namespace shoal::replication::impl::fuzz;
using namespace std::chrono_literals;
using shoal::net::impl::ByteReader;

namespace {

struct Oar {
    std::int8_t x = 0;
    float aim = 0;
    Press stroke;
    std::vector<std::uint8_t> signs;
};

Schema oar_schema() {
    Schema schema;
    schema.component<Place>("place", quantised(-64, 64, 0.01), predicted());
    schema.input<Oar>("oar", field(&Oar::x, bounded(-1, 1)), field(&Oar::aim, quantised(0, 1, 0.125)),
                      field(&Oar::signs, max_length(3)));
    CHECK(schema.error().empty());
    return schema;
}

class Harbour {
public:
    explicit Harbour(std::span<const std::byte> input)
        : in_(input), tick_(in_.u8() % 2 == 0 ? 1 : 0xffff'ffe0) {
        reader_.set(Section::inputs, &inputs_);
        writer_.set(Section::inputs, &log_);
        for (std::uint32_t i = 0; i < kPlayers; ++i) {
            peers_[i] = sender_.add_peer();
            players_.add(id(i), peers_[i]);
            boats_[i] = world_.spawn(Place{}, Oar{}, Replicated{});
            sender_.set_owner(boats_[i], peers_[i]);
        }
        drifting_ = world_.spawn(Oar{1, 0, false, {}}, Replicated{});
    }

    void run() {
        while (in_.ok() && in_.remaining() > 0) {
            step();
            check_values();
        }
    }

private:
    static constexpr std::uint32_t kPlayers = 2;

    static shoal::net::PeerId id(std::uint32_t player) { return {1u << 16 | player}; }

    Player& player(std::uint32_t index) { return *players_.find(id(index)); }
    InputStats stats_of(std::uint32_t index) {
        return player(index).inputs ? player(index).inputs->stats() : InputStats{};
    }

    void step() {
        const unsigned op = in_.u8();
        switch (op % 4) {
            case 0: {  // any bytes
                const auto bytes = in_.bytes(std::min<std::size_t>(in_.u8() % 64, in_.remaining()));
                const Payload exact(bytes.begin(), bytes.end());
                return receive(0, exact);
            }
            case 1: {  // what a correct client writes, perhaps with a bit that flipped
                Oar oar{static_cast<std::int8_t>(in_.u8()),
                        static_cast<float>(in_.u8()) / 64,
                        (op & 16) != 0,
                        {}};
                oar.signs.assign(op / 32u, static_cast<std::uint8_t>(op));
                codec_.quantise(type_, &oar, words_);
                log_.set_input(words_);
                log_.record(client_tick_++);
                Payload payload(1'100);
                payload.resize(writer_.write(++packet_, payload));
                CHECK(!payload.empty());
                if (op & 8) {
                    const std::size_t bit = in_.u32() % (payload.size() * 8);
                    payload[bit / 8] ^= std::byte(1 << bit % 8);
                    return receive(1, payload);
                }
                CHECK(reader_.read(player(1), packet_, payload, now_));
                return writer_.on_fate(packet_ - in_.u8() % 4u, (op & 4) != 0);
            }
            case 2:
                client_tick_ += op / 4u;
                if (is_newer(tick_, client_tick_)) client_tick_ = tick_;
                return;
            default:
                now_ += std::chrono::milliseconds(op / 4);
                inputs_.apply(tick_, now_);
                sender_.update(tick_++);
                return;
        }
    }

    void receive(std::uint32_t player, const Payload& payload) {
        const InputStats before = stats_of(player);
        if (reader_.read(this->player(player), ++packet_, payload, now_)) return;
        const InputStats after = stats_of(player);
        CHECK(before.late == after.late && before.early == after.early);
    }

    void check_values() {
        for (const shoal::ecs::Entity boat : boats_) {
            const Oar& oar = world_.get<Oar>(boat);
            CHECK(oar.x >= -1 && oar.x <= 1 && oar.stroke.count <= Press::kMax && oar.signs.size() <= 3);
            CHECK(oar.aim >= 0 && oar.aim <= 1);
        }
        CHECK(world_.get<Oar>(drifting_).x == 1);
        for (std::uint32_t i = 0; i < kPlayers; ++i) {
            const InputStats stats = stats_of(i);
            CHECK(stats.joined_presses <= stats.late * Press::kMax);
        }
    }

    struct NoEntities final : EntityMap {
        std::uint32_t to_net(shoal::ecs::Entity) override { return 0; }
        shoal::ecs::Entity to_entity(std::uint32_t) override { return {}; }
    };

    ByteReader in_;
    Tick tick_, client_tick_ = tick_;
    Schema schema_ = oar_schema();
    const SchemaStruct& type_ = schema_.structs(StructKind::input)[0];
    shoal::ecs::World world_;
    Sender sender_{world_, schema_};
    Players players_;
    ServerInputs inputs_{world_, schema_, sender_, players_, 20ms};
    UplinkReader reader_;
    NoEntities no_entities_;
    StructCodec codec_{no_entities_};
    std::vector<std::uint32_t> words_, neutral_ = [this] {
        const Oar oar;
        std::vector<std::uint32_t> words;
        codec_.quantise(type_, &oar, words);
        return words;
    }();
    InputLog log_{type_, neutral_};
    UplinkWriter writer_;
    shoal::net::Time now_{100s};
    std::uint64_t packet_ = 0;
    std::array<Sender::Peer, kPlayers> peers_{};
    std::array<shoal::ecs::Entity, kPlayers> boats_{};
    shoal::ecs::Entity drifting_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3 || size > 4096) return 0;
    Harbour(std::as_bytes(std::span(data, size))).run();
    return 0;
}
