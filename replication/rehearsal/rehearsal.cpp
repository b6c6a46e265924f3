#include "rehearsal.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <memory>

#include "../../net/socket/bad_network.h"
#include "../reconnect.h"
#include "../world_hash.h"

namespace shoal::replication::impl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A late press counts later than the tick in which the input was missing.
constexpr Tick kAftermath = 30;
// As many refusals without a success are a mistake.
constexpr std::uint64_t kRefusals = 4;

net::Address server_address() {
    return net::Address::ipv4(10, 0, 0, 1, 7000);
}

net::LinkConfig perfect() {
    return {.latency = milliseconds(20)};
}
/// One in three networks is good: there the game must not be disturbed at all.
net::LinkConfig any_link(Dice& dice) {
    if (dice.below(3) == 0) return perfect();
    return {.latency = milliseconds(dice.below(100)),
            .jitter = milliseconds(dice.below(40)),
            .loss = dice.below(4) * 0.06,
            .burst = dice.below(2) * 0.005,
            .duplicate = dice.below(3) * 0.03,
            .reorder = dice.below(3) * 0.03,
            .corrupt = dice.below(2) * 0.01};
}

/// Lost connections end soon, so that this happens in a short round.
void hurry(net::ConnectionConfig& connection) {
    connection.timeout = (std::min)(connection.timeout, net::Duration(seconds(3)));
    connection.keep_alive = (std::min)(connection.keep_alive, net::Duration(milliseconds(250)));
}

net::Seed bytes_of(Dice& dice) {
    net::Seed seed{};
    for (std::byte& byte : seed) byte = static_cast<std::byte>(dice.next());
    return seed;
}

/// The net ids of a Shadow's or a Receiver's entities.
template <class Entities>
class NetIdsOf final : public EntityMap {
public:
    explicit NetIdsOf(const Entities& entities) : entities_(entities) {}
    std::uint32_t to_net(ecs::Entity entity) override { return entities_.net_id(entity); }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }

private:
    const Entities& entities_;
};

}  // namespace

/// One run of a Rehearsal with one seed.
class RehearsalRun {
public:
    /// By tick: a hash of each component of all entities of the server.
    using Trace = std::vector<std::vector<std::uint64_t>>;

    /// Writes to `trace` if it is empty, and compares with it otherwise; null: neither.
    RehearsalRun(const Rehearsal& of, std::uint64_t seed, Trace* trace);
    std::optional<RehearsalFault> play();

private:
    using Counts = std::vector<std::uint64_t>;  // by the number of the action in the schema

    /// A player as the server knows it. Its statistics stay when it has left.
    struct Known {
        PlayerId id;
        PlayerStats stats;
        std::uint64_t late_actions = 0;
        Counts own, others;  // calls of handlers that the player's client must get
    };
    struct Record {
        PlayerId id;
        WorldHash::Sum sum;
        std::uint64_t disturbances = 0;  // so far: what makes predictions of this player wrong
        bool has_input = false;          // before the first input in time, a missing one is not counted
    };
    /// A client's process.
    struct Guest {
        Guest(RehearsalRun& run, const ClientOptions& options, const net::Address& at, std::uint64_t seed)
            : address(at),
              client(world, run.schema_, run.network_.at(at), options),
              player(seed),
              hash(world, run.schema_),
              binding(world, run.schema_) {}
        net::Address address;
        ecs::World world;
        Client client;
        Rehearsal::Player player;
        WorldHash hash;
        Binding binding;
        Reconnect reconnect{client};
        std::function<void()> each_frame;
        Counts own, others;
        std::uint32_t own_entities = 0;  // of the game, before the client connected
        std::uint64_t unanswered = 0;    // actions of earlier connections
        std::uint64_t mispredictions = 0;
        std::optional<Tick> compared;
        bool has_played = false, is_leaving = false;
        bool is_continuous = true;  // no ticket was used, so the client got all events since it plays
    };
    /// A place for one client after the other.
    struct Place {
        std::unique_ptr<Guest> guest;
        std::vector<std::byte> ticket;  // of a client that crashed
        net::Time next_event{0}, next_frame{0};
        std::uint32_t processes = 0;
        std::optional<net::Time> ends;  // the process ends when its goodbye is sent
    };

    void fail(std::string component, std::string what);
    bool ignores(std::string_view component) const {
        return std::ranges::find(options_.ignored, component) != options_.ignored.end();
    }
    const std::vector<SchemaStruct>& actions() const { return schema_.structs(StructKind::action); }
    std::size_t action(const void* type) const {
        return static_cast<std::size_t>(std::ranges::find(actions(), type, &SchemaStruct::type) -
                                        actions().begin());
    }
    static std::uint64_t unanswered(const Guest& guest) {
        const ClientActions::Stats& stats = guest.client.action_stats();
        return stats.done - stats.accepted - stats.rejected - stats.dropped;
    }

    void run_until(net::Time end);
    void tick();
    void take_stats();
    void take_trace(Tick tick);
    void check_rules(const Rehearsal::Side& side);
    Known* known(PlayerId id);
    const Record* record(Tick tick, PlayerId id) const;

    void event(Place& place);
    void start(Place& place);
    void frame(Place& place);
    std::optional<PlayerId> id_of(const Guest& guest) const;
    void check_world(Guest& guest, PlayerId id);
    std::string name_difference(Guest& guest, Tick tick);
    void check_prediction(Guest& guest, PlayerId id);

    bool settle();
    void check_settled(Guest& guest);
    void leave_all();
    void check_left_over();
    void check_refusals();

    const Rehearsal& of_;
    const Schema& schema_;
    const RehearsalOptions& options_;
    std::uint64_t seed_;
    Trace* trace_;
    bool compares_;
    Dice dice_;
    net::Time now_{seconds(100)}, next_tick_{seconds(100)};
    net::Duration tick_length_, frame_length_, away_time_;
    net::BadNetwork network_;
    net::PublicKey server_key_;
    ecs::World world_;
    std::unique_ptr<Server> server_;
    Rehearsal::Host host_;
    WorldHash hash_;
    Binding binding_;
    std::function<void()> each_tick_;
    std::vector<Place> places_;
    std::vector<Known> known_;
    std::vector<std::vector<Record>> records_{512};  // by tick
    bool presses_ = true;
    std::vector<ecs::Entity> first_entities_;  // on the server before the first player
    std::vector<std::size_t> memory_;          // after each round
    struct Verdicts {
        std::uint64_t accepted = 0, rejected = 0;
        Tick tick = 0;
        std::string why;
    };
    std::vector<Verdicts> verdicts_;  // by the number of the action in the schema
    Tick first_refusal_ = 0;          // of a component with from_owner()
    std::optional<RehearsalFault> fault_;
};

RehearsalRun::RehearsalRun(const Rehearsal& of, std::uint64_t seed, Trace* trace)
    : of_(of),
      schema_(of.schema_),
      options_(of.options_),
      seed_(seed),
      trace_(trace),
      compares_(trace && !trace->empty()),
      dice_(seed),
      network_(any_link(dice_), dice_.next()),
      hash_(world_, schema_),
      binding_(world_, schema_) {
    ServerOptions options = options_.server;
    net::Bytes32 key{};
    for (std::byte& byte : key) byte = static_cast<std::byte>(dice_.next());
    options.host.key = net::SecretKey(key);
    hurry(options.host.connection);
    options.join.resume_time = away_time_ = (std::min)(options.join.resume_time, net::Duration(seconds(5)));
    server_key_ = net::public_key(options.host.key);
    options.host.seed = bytes_of(dice_);
    options.random_seed = dice_.next();
    tick_length_ = net::Duration(static_cast<std::int64_t>(1e6 / options.sender.tick_hz));
    frame_length_ = net::Duration(static_cast<std::int64_t>(1e6 / options_.frame_hz));
    server_ = std::make_unique<Server>(world_, schema_, network_.at(server_address()), options);
    verdicts_.resize(actions().size());
    server_->on_action([this](const ActionReport& report) {
        Verdicts& all = verdicts_[report.type];
        (report.is_accepted ? all.accepted : all.rejected) += 1;
        if (!report.is_accepted && all.rejected == 1) all.tick = report.tick, all.why = report.why_not;
        for (Known& player : known_) {
            if (player.id == report.who) {
                player.late_actions += report.late_ticks != 0;
                player.own[report.type] += report.is_accepted;
            } else if (report.is_accepted && server_->phase(player.id) == Phase::playing) {
                player.others[report.type] += 1;
            }
        }
    });
    each_tick_ = of.server_(world_, *server_, host_);
    places_.resize(options_.players);
}

std::optional<RehearsalFault> RehearsalRun::play() {
    assert(!options_.memory || options_.rounds >= 3);
    run_until(now_ + seconds(1));
    world_.each_entity([&](ecs::Entity entity) { first_entities_.push_back(entity); });
    for (std::uint32_t round = 0; round < options_.rounds && !fault_; ++round) {
        presses_ = true;
        for (Place& place : places_) place.next_event = now_ + milliseconds(dice_.below(1'500));
        run_until(now_ + options_.play);
        if (!fault_ && settle())
            for (Place& place : places_)
                if (place.guest) check_settled(*place.guest);
        if (!fault_) leave_all();
        if (!fault_) check_left_over();
        if (fault_ || !options_.memory || trace_) continue;
        memory_.push_back(options_.memory());
        const auto grew = [&](std::size_t at) {
            return memory_[at] > memory_[at - 1] + options_.memory_growth;
        };
        if (round >= 2 && grew(round) && grew(round - 1))
            fail("memory", "the program holds more after each round: " + std::to_string(memory_[round]) +
                               " bytes, before " + std::to_string(memory_[round - 1]));
    }
    if (!fault_) check_refusals();
    return fault_;
}

void RehearsalRun::fail(std::string component, std::string what) {
    if (fault_ || ignores(component)) return;
    fault_ = RehearsalFault{seed_, server_->current_tick(), std::move(component), std::move(what), {}};
    if (!options_.command.empty()) fault_->command = options_.command + std::to_string(seed_);
}

void RehearsalRun::run_until(net::Time end) {
    while (!fault_) {
        Place* next = nullptr;
        for (Place& place : places_)
            if (place.guest && (!next || place.next_frame < next->next_frame)) next = &place;
        const bool is_tick = !next || next_tick_ <= next->next_frame;
        const net::Time at = is_tick ? next_tick_ : next->next_frame;
        if (at > end) break;
        now_ = at;
        is_tick ? tick() : frame(*next);
        if (!is_tick || !presses_) continue;
        for (Place& place : places_)
            if (place.next_event <= now_) event(place);
    }
}

void RehearsalRun::tick() {
    network_.receive_all(server_address(), server_->host(), now_);
    if (each_tick_) each_tick_();
    const Tick tick = server_->tick(now_);
    next_tick_ += tick_length_;
    take_stats();
    check_rules(host_);
    if (trace_) take_trace(tick);
}

RehearsalRun::Known* RehearsalRun::known(PlayerId id) {
    const auto found = std::ranges::find(known_, id, &Known::id);
    return found == known_.end() ? nullptr : &*found;
}

const RehearsalRun::Record* RehearsalRun::record(Tick tick, PlayerId id) const {
    if (is_newer(tick, server_->current_tick()) || server_->current_tick() - tick >= records_.size())
        return nullptr;
    const std::vector<Record>& all = records_[tick % records_.size()];
    const auto found = std::ranges::find(all, id, &Record::id);
    return found == all.end() ? nullptr : &*found;
}

void RehearsalRun::take_stats() {
    std::vector<Record>& records = records_[server_->current_tick() % records_.size()];
    records.clear();
    server_->for_each_peer([&](PlayerId id) {
        if (!known(id)) known_.push_back({id, {}, 0, Counts(verdicts_.size()), Counts(verdicts_.size())});
        Known& player = *known(id);
        player.stats = server_->stats(id);
        const InputStats& inputs = player.stats.inputs;
        const ActionStats& actions = player.stats.actions;
        const std::uint64_t disturbances = inputs.late + inputs.early + inputs.repeated + inputs.neutral +
                                           inputs.joined_presses + inputs.dropped_presses +
                                           player.late_actions + actions.rejected + actions.dropped +
                                           actions.deferred;
        records.push_back({id, server_->view(id).hash(hash_), disturbances, inputs.in_time != 0});
        if (player.stats.owned.refused != 0 && first_refusal_ == 0) first_refusal_ = server_->current_tick();
    });
}

void RehearsalRun::take_trace(Tick tick) {
    const Shadow& shadow = server_->sender().shadow();
    NetIdsOf ids(shadow);
    std::vector<std::uint64_t> sums(schema_.components().size());
    std::vector<std::uint32_t> words;
    for (std::uint32_t index = 0; index < shadow.index_count(); ++index) {
        if (!shadow[index].entity) continue;
        for (ComponentIndex component = 0; component < sums.size(); ++component) {
            words.clear();
            if (!binding_.capture_component(shadow[index].entity, component, ids, words)) continue;
            std::uint64_t hash = mix(0, shadow[index].net_id);
            for (const std::uint32_t word : words) hash = mix(hash, word);
            sums[component] += hash;
        }
    }
    if (!compares_) return trace_->push_back(std::move(sums));
    const std::size_t at = tick - options_.server.first_tick;
    for (std::size_t i = 0; i < sums.size(); ++i)
        if (at < trace_->size() && (*trace_)[at][i] != sums[i])
            return fail(schema_.components()[i].name,
                        "another run of the same seed has another value: a clock, a random source without "
                        "seed, or an order by address");
}

void RehearsalRun::check_rules(const Rehearsal::Side& side) {
    for (const auto& rule : side.rules_) {
        const auto broken = rule();
        if (broken.why.empty()) continue;
        const std::size_t component = schema_.find(broken.component);
        const auto& all = schema_.components();
        fail(component < all.size() ? all[component].name : "?", broken.why);
    }
}

// Clients

void RehearsalRun::event(Place& place) {
    place.next_event = now_ + milliseconds(500 + dice_.below(5'000));
    if (place.ends) return;
    if (!place.guest) return start(place);
    Guest& guest = *place.guest;
    switch (dice_.below(10)) {
        case 0:  // leaves
            guest.client.disconnect(now_, seconds(1));
            place.ends = now_ + milliseconds(1'500);
            break;
        case 1:  // crashes, and perhaps comes back
            place.ticket = dice_.chance(0.5) ? guest.client.ticket() : std::vector<std::byte>();
            place.guest.reset();
            break;
        case 2:  // has no network for a while
            network_.in(guest.address).set_config({.loss = 1});
            break;
        case 3:  // leaves and joins in the same process
            if (guest.client.phase() != Phase::playing) break;
            guest.client.disconnect(now_);
            guest.reconnect.start(server_address());
            guest.is_leaving = true;
            break;
        default:
            network_.in(guest.address).set_config(any_link(dice_));
            break;
    }
}

void RehearsalRun::start(Place& place) {
    // A process has another port than the ones before it, which the server may not have forgotten.
    const auto address = net::Address::ipv4(10, 0, 1, static_cast<std::uint8_t>(&place - places_.data()),
                                            static_cast<std::uint16_t>(5000 + place.processes++ % 16));
    ClientOptions options = options_.client;
    options.net.server_key = server_key_;
    options.net.seed = bytes_of(dice_);
    hurry(options.net.connection);
    options.receiver.hash_seed = dice_.next() | 1;
    options.check_every = options_.check_every;
    options.on_step_fault = [this](const StepFault& fault) {
        const bool is_difference = fault.kind == StepFault::Kind::difference;
        fail(fault.component.empty() ? "entities" : std::string(fault.component),
             is_difference ? "the step computed a tick twice, with two results: " + fault.first + ", then " +
                                 fault.second
                           : "the step wrote or destroyed what a step must not change");
    };
    options.receiver.on_local_write = [this](ecs::Entity, std::string_view component) {
        fail(std::string(component), "the client's game wrote it, but the server decides it");
    };
    place.guest = std::make_unique<Guest>(*this, options, address, dice_.next());
    Guest& guest = *place.guest;
    guest.own.resize(verdicts_.size());
    guest.others.resize(verdicts_.size());
    guest.each_frame = of_.client_(guest.world, guest.client, guest.player);
    for (const Rehearsal::Once& once : of_.once_) {
        const std::size_t type = action(once.action);
        once.listen(guest.client, [&guest, type](const Call& call) {
            (call.is_mine ? guest.own : guest.others)[type] += 1;
        });
    }
    guest.world.each_entity([&](ecs::Entity) { guest.own_entities += 1; });
    guest.is_continuous = place.ticket.empty();
    guest.reconnect.start(server_address(), std::exchange(place.ticket, {}));
    network_.in(address).set_config(any_link(dice_));
    place.next_frame = now_ + net::Duration(dice_.below(15'000));
}

std::optional<PlayerId> RehearsalRun::id_of(const Guest& guest) const {
    std::optional<PlayerId> found;
    server_->for_each_peer([&](PlayerId id) {
        if (server_->host().address(server_->connection(id)) == guest.address) found = id;
    });
    return found;
}

void RehearsalRun::frame(Place& place) {
    Guest& guest = *place.guest;
    place.next_frame += frame_length_;
    network_.receive_all(guest.address, guest.client.endpoint(), now_);
    guest.client.update(now_);
    if (place.ends) {
        if (*place.ends > now_) return;
        place.ends.reset();
        return place.guest.reset();
    }
    if (guest.is_leaving) {  // the first update after connect() has destroyed all replicas
        guest.is_leaving = false;
        std::uint32_t left = 0;
        guest.world.each_entity([&](ecs::Entity) { left += 1; });
        if (left > guest.own_entities)
            fail("entities", "a client that left has " + std::to_string(left - guest.own_entities) +
                                 " entities more than before it joined");
        guest.is_continuous = true;
        guest.has_played = false;
        guest.unanswered = unanswered(guest);
        std::ranges::fill(guest.own, 0);
        std::ranges::fill(guest.others, 0);
    }
    const bool plays = guest.client.phase() == Phase::playing;
    if (guest.has_played && !plays) guest.is_continuous = false;
    guest.has_played = guest.has_played || plays;
    if (!guest.reconnect.update(now_)) {
        if (guest.client.is_refused()) fail("connection", "the server ended it: " + guest.client.failure());
        return place.guest.reset();
    }
    if (const auto id = plays ? id_of(guest) : std::nullopt) {
        check_world(guest, *id);
        check_prediction(guest, *id);
    }
    for (const auto& handled : guest.player.handled_)
        if (const std::uint64_t used = handled.count(); used != *handled.calls && !fault_)
            fail(actions()[action(handled.action)].name,
                 "the client's handlers were called " + std::to_string(*handled.calls) +
                     " times, but the game has used " + std::to_string(used));
    check_rules(guest.player);
    if (presses_ && guest.each_frame && !fault_) guest.each_frame();
}

void RehearsalRun::check_world(Guest& guest, PlayerId id) {
    const auto complete = guest.client.receiver().complete();
    if (!complete || complete->tick == guest.compared) return;
    const Record* const server = record(complete->tick, id);
    guest.compared = complete->tick;
    if (!server) return;
    const WorldHash::Sum client = guest.hash.of_client(guest.client.receiver());
    if (client.hash == server->sum.hash && client.entities == server->sum.entities) return;
    fail(name_difference(guest, complete->tick),
         "the client's world differs from the server's at tick " + std::to_string(complete->tick));
}

/// Finds a component that everyone sees and whose value differs at a tick.
std::string RehearsalRun::name_difference(Guest& guest, Tick tick) {
    const Receiver& receiver = guest.client.receiver();
    const Shadow& shadow = server_->sender().shadow();
    NetIdsOf on_server(shadow);
    NetIdsOf on_client(receiver);
    std::vector<std::uint32_t> words, expected;
    std::string found;
    // Looks for a component of an entity that is not the one of an image.
    const auto compare = [&](Binding& binding, ecs::Entity entity, EntityMap& map, const Image& image,
                             std::span<const ComponentIndex> held) {
        for (ComponentIndex i = 0; i < schema_.components().size() && found.empty(); ++i) {
            const SchemaComponent& component = schema_.components()[i];
            if (component.viewers != to_everyone() || component.is_optional) continue;
            if (std::ranges::find(held, i) != held.end()) continue;
            words.clear();
            const bool is_here = binding.capture_component(entity, i, map, words);
            ImageCursor value(schema_, image);
            if (value.seek(i) != is_here) {
                found = component.name;
            } else if (is_here) {
                const std::size_t lanes = value.layout().lanes().size();
                expected.assign(value.lanes(), value.lanes() + lanes);
                expected.insert(expected.end(), value.parts(), value.parts() + value.part_words());
                if (words != expected) found = component.name;
            }
        }
    };
    receiver.for_each_entity([&](NetId net_id, ecs::Entity entity) {
        const std::uint32_t index = shadow.index_of(net_id);
        if (index == Shadow::kNone || !found.empty()) return;
        if (const auto version = shadow.at(index, tick, to_everyone()))
            compare(guest.binding, entity, on_client, version->image, receiver.held(net_id));
    });
    // Otherwise the server's world differs from what it sent: the game wrote without a hook.
    for (std::uint32_t index = 0; index < shadow.index_count() && found.empty(); ++index)
        if (const auto& entry = shadow[index]; entry.entity && world_.is_alive(entry.entity))
            if (const auto version = shadow.at(index, server_->current_tick(), to_everyone()))
                compare(binding_, entry.entity, on_server, version->image, {});
    return found.empty() ? "entities" : found;
}

void RehearsalRun::check_prediction(Guest& guest, PlayerId id) {
    const PredictionStats& stats = guest.client.prediction_stats();
    if (std::exchange(guest.mispredictions, stats.mispredictions) == stats.mispredictions) return;
    const Misprediction& last = stats.last;
    if (last.has_teleported) return;
    const ecs::Entity entity = server_->sender().shadow().entity_of(last.entity);
    if (!entity || server_->owner(entity) != id) return;
    const auto is_named = [&](const void* type) {
        const std::size_t index = schema_.find(type);
        return index < schema_.components().size() && schema_.components()[index].name == last.component;
    };
    if (std::ranges::none_of(of_.deterministic_, is_named)) return;
    const Record *const before = record(last.after - kAftermath, id), *const at = record(last.tick, id);
    if (!before || !before->has_input || !at || before->disturbances != at->disturbances) return;
    fail(std::string(last.component),
         "the client predicted it wrongly at tick " + std::to_string(last.tick) +
             ", but all inputs and actions came in time: does the step use what the client does not have, or "
             "does the server write it outside of the step, without a teleport?");
}

// The end of a round

/// Lets the clients get everything over a good network. Returns false if a mistake was found.
bool RehearsalRun::settle() {
    presses_ = false;
    network_.in(server_address()).set_config(perfect());
    for (Place& place : places_)
        if (place.guest) network_.in(place.guest->address).set_config(perfect());
    const auto is_unsettled = [](const Place& place) {
        return place.guest && !place.ends && place.guest->client.phase() != Phase::playing;
    };
    const net::Time latest = now_ + seconds(40);
    do run_until(now_ + seconds(3));
    while (!fault_ && now_ < latest && std::ranges::any_of(places_, is_unsettled));
    if (!fault_ && std::ranges::any_of(places_, is_unsettled))
        fail("entities", "a client does not play after 40 s of a good network");
    return !fault_;
}

void RehearsalRun::check_settled(Guest& guest) {
    const auto id = id_of(guest);
    const Known* const player = id ? known(*id) : nullptr;
    if (!player || !guest.is_continuous) return;
    if (unanswered(guest) > guest.unanswered)
        return fail("actions", "the server has not answered each action of a client");
    if (player->stats.actions.lost_events != 0) return;
    for (const Rehearsal::Once& once : of_.once_) {
        const std::size_t type = action(once.action);
        const std::string& name = actions()[type].name;
        if (guest.others[type] != player->others[type])
            return fail(name, "a client's handlers were called " + std::to_string(guest.others[type]) +
                                  " times for " + std::to_string(player->others[type]) +
                                  " actions of others");
        if (guest.own[type] < player->own[type])
            return fail(name, "the server did " + std::to_string(player->own[type]) +
                                  " actions of a client that did " + std::to_string(guest.own[type]));
    }
}

void RehearsalRun::leave_all() {
    for (Place& place : places_) {
        place.ticket.clear();
        if (!place.guest) continue;
        if (dice_.chance(0.3)) {
            place.guest.reset();
        } else if (!place.ends) {
            place.guest->client.disconnect(now_, seconds(1));
            place.ends = now_ + milliseconds(1'500);
        }
    }
    run_until(now_ + away_time_ + seconds(8));
    network_.in(server_address()).set_config(any_link(dice_));
}

void RehearsalRun::check_left_over() {
    std::uint32_t left = 0, all = 0;
    std::string names;
    world_.each_entity([&](ecs::Entity entity) {
        all += 1;
        if (std::ranges::find(first_entities_, entity) != first_entities_.end()) return;
        if (options_.may_stay && options_.may_stay(world_, entity)) return;
        left += 1;
        for (ComponentIndex i = 0; i < schema_.components().size() && left == 1; ++i)
            if (world_.has(entity, binding_.ids()[i]))
                names += (names.empty() ? "" : "+") + schema_.components()[i].name;
    });
    // A game may replace the entities that it had before.
    if (left == 0 || (!options_.may_stay && all <= first_entities_.size())) return;
    fail(names.empty() ? "entities" : names,
         std::to_string(left) + " entities are left on the server after all players left");
}

void RehearsalRun::check_refusals() {
    std::uint64_t taken = 0, refused = 0;
    for (const Known& player : known_)
        taken += player.stats.owned.taken, refused += player.stats.owned.refused;
    std::string names;
    for (const SchemaComponent& component : schema_.components())
        if (component.role == Role::owner) names += (names.empty() ? "" : "+") + component.name;
    if (taken == 0 && refused >= kRefusals) {
        fail(names, "the server's check refused all " + std::to_string(refused) + " values of clients");
        if (fault_) fault_->tick = first_refusal_;
    }
    for (std::size_t type = 0; type < verdicts_.size(); ++type) {
        const Verdicts& all = verdicts_[type];
        if (fault_ || all.accepted != 0 || all.rejected < kRefusals) continue;
        fail(actions()[type].name,
             "the server rejected all " + std::to_string(all.rejected) + " of them: " + all.why);
        if (fault_) fault_->tick = all.tick;
    }
}

// Rehearsal

std::uint64_t Dice::next() {  // SplitMix64
    std::uint64_t mixed = state_ += 0x9E37'79B9'7F4A'7C15;
    mixed = (mixed ^ mixed >> 30) * 0xBF58'476D'1CE4'E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D0'49BB'1331'11EB;
    return mixed ^ mixed >> 31;
}

std::string RehearsalFault::text() const {
    std::string line =
        "seed " + std::to_string(seed) + ", tick " + std::to_string(tick) + ", " + component + ": " + what;
    if (!command.empty()) line += "; again: " + command;
    return line;
}

std::optional<RehearsalFault> Rehearsal::run(std::uint64_t seed) {
    const bool repeats = options_.repeat_every != 0 && seed % options_.repeat_every == 0;
    RehearsalRun::Trace trace;
    auto fault = std::make_unique<RehearsalRun>(*this, seed, repeats ? &trace : nullptr)->play();
    if (!fault && repeats) fault = std::make_unique<RehearsalRun>(*this, seed, &trace)->play();
    return fault;
}

std::optional<RehearsalFault> Rehearsal::run(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t seed = first; seed < first + count; ++seed)
        if (auto fault = run(seed)) return fault;
    return std::nullopt;
}

}  // namespace shoal::replication::impl
