// Every header of replication/ compiles behind the macros of other systems, and its templates too.

#include <gtest/gtest.h>

#include "tests/support/foreign_macros.h"
// after the macros
#include "replication/action/action.h"
#include "replication/action/action_inbox.h"
#include "replication/action/action_queue.h"
#include "replication/action/action_wire.h"
#include "replication/action/client_actions.h"
#include "replication/action/overlay.h"
#include "replication/action/server_actions.h"
#include "replication/client.h"
#include "replication/codec/bits.h"
#include "replication/codec/codec.h"
#include "replication/codec/coder.h"
#include "replication/codec/edits.h"
#include "replication/codec/group.h"
#include "replication/codec/part.h"
#include "replication/codec/state_packet.h"
#include "replication/history/bucket_hash.h"
#include "replication/history/history.h"
#include "replication/history/keyed_entities.h"
#include "replication/history/net_ids.h"
#include "replication/history/reference_index.h"
#include "replication/history/replicas.h"
#include "replication/history/shadow.h"
#include "replication/message.h"
#include "replication/message/message_intake.h"
#include "replication/message/message_queue.h"
#include "replication/message/typed_messages.h"
#include "replication/play/action_stream.h"
#include "replication/play/message_kind.h"
#include "replication/play/owned_reader.h"
#include "replication/play/owned_wire.h"
#include "replication/play/owned_writer.h"
#include "replication/play/player_id.h"
#include "replication/play/players.h"
#include "replication/play/seat.h"
#include "replication/play/struct_codec.h"
#include "replication/play/ticket.h"
#include "replication/play/uplink.h"
#include "replication/predict/input_buffer.h"
#include "replication/predict/input_clock.h"
#include "replication/predict/input_log.h"
#include "replication/predict/lead_meter.h"
#include "replication/predict/predicted_values.h"
#include "replication/predict/predictor.h"
#include "replication/predict/server_inputs.h"
#include "replication/predict/smoothing.h"
#include "replication/predict/step.h"
#include "replication/predict/step_check.h"
#include "replication/presentation.h"
#include "replication/receive/applier.h"
#include "replication/receive/completion.h"
#include "replication/receive/decoder.h"
#include "replication/receive/local_writes.h"
#include "replication/receive/receiver.h"
#include "replication/reconnect.h"
#include "replication/runner.h"
#include "replication/schema/binding.h"
#include "replication/schema/cluster.h"
#include "replication/schema/field_codec.h"
#include "replication/schema/fields.h"
#include "replication/schema/image.h"
#include "replication/schema/lanes.h"
#include "replication/schema/options.h"
#include "replication/schema/pairs.h"
#include "replication/schema/pending_id.h"
#include "replication/schema/press.h"
#include "replication/schema/quantise.h"
#include "replication/schema/schema.h"
#include "replication/schema/stable_key.h"
#include "replication/schema/view_class.h"
#include "replication/schema/walk.h"
#include "replication/send/audience.h"
#include "replication/send/cluster_slots.h"
#include "replication/send/deliveries.h"
#include "replication/send/delta_cache.h"
#include "replication/send/flight.h"
#include "replication/send/payload_writer.h"
#include "replication/send/peer_view.h"
#include "replication/send/sender.h"
#include "replication/server.h"
#include "replication/show/float_fields.h"
#include "replication/show/interpolator.h"
#include "replication/show/mixer.h"
#include "replication/show/render_clock.h"
#include "replication/show/render_time.h"
#include "replication/show/rewind.h"
#include "replication/show/sight.h"
#include "replication/show/timeline.h"
#include "replication/world_hash.h"

using namespace shoal::replication;

namespace {

struct Place {
    float x = 0;
};
struct Look {
    int angle = 0;
};
struct Shot {
    shoal::ecs::Entity at;
};

}  // namespace

TEST(Macros, OfOtherSystemsDoNotReachReplication) {
    Schema schema;
    schema.component<Place>("place", field(&Place::x, quantised(0, 100, 0.1f)));
    schema.input<Look>("look");
    schema.action<Shot>("shot");
    shoal::ecs::World world;
    const shoal::ecs::Entity one = world.spawn(Replicated{}, Place{5});
    EXPECT_NE(schema.find<Place>(), schema.find<Look>());
    EXPECT_TRUE(world.has<Replicated>(one));
}
