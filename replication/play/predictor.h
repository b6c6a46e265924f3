#pragma once
// A client's side of the game's time: its player's inputs, and the entities that it computes ahead of the
// server.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../../ecs/query.h"
#include "../receive/receiver.h"
#include "input_clock.h"
#include "input_log.h"
#include "predicted_values.h"
#include "smoothing.h"
#include "step.h"
#include "struct_codec.h"

namespace shoal::replication {

struct PredictionStats {
    std::uint64_t ticks = 0;           // steps run for the first time
    std::uint64_t checks = 0;          // ticks whose result was compared with the server's
    std::uint64_t mispredictions = 0;  // of them: how often they differed
    std::uint64_t resimulated = 0;     // steps run again
    std::uint64_t nans = 0;            // numbers that a step left as NaN
    std::uint32_t last_error = 0;  // of the last misprediction: greatest difference in steps of a codec, or
                                   // PredictedValues::kOther
};

/// Owns the clock P, the input log, and the history of what this client predicted. The group are the entities
/// with the tag Mine. Not thread-safe.
class Predictor {
public:
    static constexpr Tick kKept = InputLog::kKept;  // ticks that can be simulated again

    /// The arguments must outlive this object. `map` translates references. `max_lead`: with more, nothing is
    /// predicted.
    Predictor(ecs::World& world, const Schema& schema, Receiver& receiver, EntityMap& map,
              net::Duration max_lead);
    ~Predictor();
    Predictor(const Predictor&) = delete;
    Predictor& operator=(const Predictor&) = delete;

    void set_on_step(OnStep on_step) { on_step_ = std::move(on_step); }

    /// The server says how long its ticks are.
    void start(net::Duration tick, std::uint64_t random_seed);
    /// Forgets everything, before a new connection.
    void reset();

    /// A payload of this tick was accepted.
    void hear(Tick tick, net::Time now) {
        if (clock_) clock_->hear(tick, now);
    }
    void shift(net::Duration by) {
        if (clock_) clock_->shift(by);
    }

    /// Takes an input: a value of the schema's input type.
    void hold(const void* input);

    /// Corrects what was predicted, and runs the ticks that begin. Call it after the receiver applied its
    /// news.
    void update(net::Time now, net::Duration rtt, net::Duration rtt_var);

    /// The tick that the newest input is for; nothing before the first one.
    std::optional<Tick> tick() const;
    /// The client just spawned this entity ahead of the server. Its steps run from the next new tick on. They
    /// do not run again before it belongs to the group, because nothing of the server corrects it. Returns
    /// the components that it has to hold when it becomes a replica.
    std::span<const ComponentIndex> add_pending(ecs::Entity entity);
    /// Whether entities are computed ahead. False before the first input, and while the lead is too great.
    bool is_predicting() const { return is_predicting_; }
    const PredictionStats& stats() const { return stats_; }
    /// Changes the value of a component of this C++ type (detail::type_address), which the world has, to what
    /// is to be shown now. Returns false, without effect, if the entity is not predicted.
    bool show(ecs::Entity entity, const void* type, void* value) const;
    /// Null if the schema has no input.
    InputLog* inputs() { return log_.get(); }

private:
    static constexpr std::uint32_t kJump = 6;  // so many ticks in one update are shown as a jump would be

    struct Member {
        ecs::Entity entity;
        NetId net_id = 0;
        Tick since = 0;                   // it belongs to the group from this tick on
        bool is_found = false;            // the tag is still there
        bool is_active = false;           // it was restored once, and is simulated since
        std::optional<Tick> first;        // oldest tick in `rows`
        std::vector<std::uint32_t> rows;  // of the last kKept ticks, by tick
        Smoothing::Entity shown;
        std::optional<std::uint32_t> teleports;  // their count, see Teleports, as of the last check
        bool has_teleported = false;
    };

    std::span<std::uint32_t> row(Member& member, Tick tick) {
        const std::size_t words = values_.row_words();
        return std::span(member.rows).subspan(tick % kKept * words, words);
    }
    void find_group();
    void leave(Member& member);
    void join(ecs::Entity entity, bool is_active);
    void find_pending();
    void set_predicted(std::span<const ecs::Entity> entities, bool is_predicted);
    void stop();
    void reconcile();
    bool find_images(Tick tick);
    std::uint32_t teleports(const Image& image) const;
    bool is_wrong(Tick tick);
    void restore(Tick tick);
    void run(Tick tick, bool is_new);
    void write_input(ecs::Entity entity, std::span<const std::uint32_t> words);

    ecs::World& world_;
    Receiver& receiver_;
    EntityMap& map_;
    net::Duration max_lead_;
    OnStep on_step_;
    StepQueries queries_;
    PredictedValues values_;
    Smoothing smoothing_;
    ComponentIndex teleports_ = kUnknownComponent;
    net::Time updated_{0};
    double fraction_ = 0;               // of the newest tick, as of the last update()
    std::vector<ComponentIndex> held_;  // of the group: predicted, and the input if it replicates
    ecs::Query<ecs::With<Mine>> mine_;

    // Of the schema's input; null if it has none.
    const SchemaStruct* type_ = nullptr;
    ecs::ComponentId component_{};
    std::unique_ptr<StructCodec> codec_;
    std::unique_ptr<StructValue> value_;
    std::unique_ptr<InputLog> log_;
    std::vector<std::uint32_t> words_, neutral_;

    std::optional<InputClock> clock_;
    net::Duration tick_{0};
    std::uint64_t seed_ = 0;
    std::optional<Tick> last_;  // the newest tick that was run
    std::vector<Member> members_;
    std::vector<ecs::Entity> pending_;  // see add_pending(); not replicas yet
    std::vector<Image> images_;         // of the members, at the tick that is looked at
    std::vector<std::uint32_t> row_;    // of an image
    std::optional<Tick> checked_;       // the last tick whose result was compared
    std::optional<Tick> nan_until_;     // no restore before this tick is complete
    bool must_restore_ = false, is_predicting_ = false;
    PredictionStats stats_;
};

}  // namespace shoal::replication
