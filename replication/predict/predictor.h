#pragma once
// Prediction on a client: the inputs of its player, and the entities that the client computes ahead of the
// server.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "../../ecs/query.h"
#include "../play/running.h"
#include "../play/struct_codec.h"
#include "../receive/receiver.h"
#include "../show/interpolator.h"
#include "input_clock.h"
#include "input_log.h"
#include "lead_meter.h"
#include "predicted_values.h"
#include "smoothing.h"
#include "step.h"
#include "step_check.h"

namespace shoal::replication::impl {

/// The first value that a check found wrong, see PredictionStats.
struct Misprediction {
    Tick tick = 0;                // the tick that was checked
    Tick after = 0;               // the tick of the check before, whose result was right or was set right
    NetId entity = 0;             // the first of the entities that were wrong
    bool has_teleported = false;  // Server::teleport() was called for the entity since the check before
    std::string_view component;   // its name in the schema
};

struct PredictionStats {
    std::uint64_t ticks = 0;            // steps run for the first time
    std::uint64_t checks = 0;           // ticks whose result was compared with the server's
    std::uint64_t mispredictions = 0;   // checks whose results differed
    std::uint64_t resimulated = 0;      // steps run again
    std::uint64_t nan_fields = 0;       // fields that had a NaN after a step
    ComponentLayout::Misfits misfits;   // values of inputs that did not fit their codecs
    std::uint64_t dropped_presses = 0;  // presses dropped: 32 of their field waited, or not playing
    std::uint32_t last_error = 0;  // the last misprediction's greatest difference in steps of a codec, or
                                   // PredictedValues::kOther
    Misprediction last = {};       // the last one
};

/// Owns the input clock, the lead meter, the input log, and the values that this client predicted for recent
/// ticks. In this file, the group is the set of entities with the tags Mine or ToPredict. Not thread-safe.
class Predictor {
public:
    /// The arguments must outlive this object. `max_lead`: while the lead is
    /// greater, nothing is predicted.
    Predictor(ecs::World& world, const Schema& schema, Receiver& receiver, net::Duration max_lead);
    ~Predictor();
    Predictor(const Predictor&) = delete;
    Predictor& operator=(const Predictor&) = delete;

    /// Sets what shows the entities that are not predicted; may be null. It must outlive this object. Where
    /// prediction begins or ends, what is drawn goes on from what was drawn before.
    void set_interpolator(Interpolator* interpolator) { interpolator_ = interpolator; }
    void set_on_step(OnStep on_step) { on_step_ = std::move(on_step); }
    /// Checks the step function in each `every`-th tick from now on; 0: never. See StepCheck.
    void check_steps(Tick every, OnStepFault on_fault);

    /// Call it when the server has sent the length of its ticks, after Receiver::start_clock().
    void start(net::Duration tick, std::uint64_t random_seed);
    /// Drops all inputs and predictions, before a new connection.
    void reset();

    /// Call it when a payload said how early a packet with inputs arrived.
    void take_margin(const StateHeader::Margin& margin, net::Time now);

    /// See InputLog::set_seen().
    void set_seen(const std::optional<RenderTime>& seen) {
        if (log_) log_->set_seen(seen);
    }
    /// Takes an input: a value of the schema's input type. Its presses are dropped if the client does not
    /// play.
    void set_input(const void* input, bool is_playing = true);

    /// Corrects wrong predictions, and runs the ticks that begin. Call it after Receiver::apply().
    void update(net::Time now, net::Duration rtt, net::Duration rtt_var);

    /// The tick of the newest input. Empty before the first input.
    std::optional<Tick> tick() const;
    /// Call it when the client has spawned this entity ahead of the server. Steps compute the entity from
    /// the next new tick on. Ticks that are computed again leave the entity as it is until it belongs to the
    /// group: before that, no state of the server corrects it. Returns the components to hold when the
    /// entity becomes a replica, see Receiver::hold().
    std::span<const ComponentIndex> add_pending(ecs::Entity entity);
    /// Returns whether entities are predicted. False before the first input, and while the lead is greater
    /// than max_lead.
    bool is_predicting() const { return is_predicting_; }
    const PredictionStats& stats() const { return stats_; }
    /// Changes `value` to what is to be shown now. `value` is a copy of the entity's component of this C++
    /// type (type_address). Returns false, without effect, if the entity is not predicted.
    bool show(ecs::Entity entity, const void* type, void* value) const;
    /// Null if the schema has no input.
    InputLog* inputs() { return log_.get(); }

private:
    // If ticks of so much time begin in one update, this is smoothed like a correction.
    static constexpr net::Duration kJump = std::chrono::milliseconds(90);

    struct Member {
        ecs::Entity entity;
        NetId net_id = 0;
        Tick since = 0;                   // the entity belongs to the group from this tick on
        bool is_found = false;            // the entity still has a tag of the group
        bool is_active = false;           // the entity was restored once, and has been simulated since then
        std::vector<std::uint32_t> rows;  // a row for each of the last kept_ ticks, by tick
        Smoothing::Shown shown;
        std::optional<std::uint32_t> teleports;  // the entity's teleport count at the last check
        bool has_teleported = false;
    };

    std::span<std::uint32_t> row(Member& member, Tick tick) {
        const std::size_t words = values_.row_words();
        return std::span(member.rows).subspan(tick % kept_ * words, words);
    }
    /// Returns the entity's index in members_; members_.size() if it is not a member.
    std::size_t find(ecs::Entity entity) const;
    void update_group();
    void hold(ecs::Entity entity);
    void leave(Member& member);
    void join(ecs::Entity entity, bool is_active);
    void join_pending();
    void set_predicted(std::span<const ecs::Entity> entities, bool is_predicted);
    void stop();
    void reconcile();
    bool find_images(Tick tick);
    std::uint32_t teleports(const Image& image) const;
    bool is_wrong(Tick tick, Tick after);
    void restore(Tick tick);
    void begin_jumps();
    void run(Tick tick, bool is_new);

    ecs::World& world_;
    const Schema& schema_;
    Receiver& receiver_;
    net::Duration max_lead_;
    Interpolator* interpolator_ = nullptr;
    OnStep on_step_;
    StepQueries queries_;
    std::unique_ptr<StepCheck> check_;  // null: steps are not checked
    PredictedValues values_;
    Smoothing smoothing_;
    ComponentIndex teleports_;  // if the schema has none: an index that no shape has
    net::Time updated_{0};
    double fraction_ = 0;               // at the last update(): the part of the newest tick that has passed
    std::vector<ComponentIndex> held_;  // predicted components, and the input component if it replicates
    ecs::Query<ecs::With<Mine>> mine_;
    ecs::Query<ecs::With<ToPredict>> to_predict_;

    // For the schema's input type; null if the schema has none.
    const SchemaStruct* type_ = nullptr;
    ecs::ComponentId component_{};
    std::unique_ptr<StructCodec> codec_;
    std::unique_ptr<StructValue> value_;
    std::unique_ptr<InputLog> log_;
    std::vector<std::uint32_t> words_, neutral_;

    std::optional<InputClock> clock_;
    std::optional<LeadMeter> meter_;
    net::Duration tick_{0};
    Tick kept_ = 64;  // ticks that can be computed again, see ticks_kept()
    std::uint64_t seed_ = 0;
    std::optional<Tick> last_;  // the newest tick that was run
    std::vector<Member> members_;
    std::vector<std::uint32_t> places_;  // by index of an entity: index in members_ if it is a member
    std::vector<ecs::Entity> pending_;   // entities of add_pending() that are not replicas yet
    std::vector<Image> images_;          // found by find_images(): one for each member
    std::vector<std::uint32_t> row_;     // scratch: the row of an image
    std::optional<Tick> checked_;        // the last tick whose result was compared with the server's
    std::optional<Tick> nan_until_;      // after a NaN: nothing is restored before this tick is complete
    bool must_restore_ = false, is_predicting_ = false;
    PredictionStats stats_;
};

}  // namespace shoal::replication::impl
