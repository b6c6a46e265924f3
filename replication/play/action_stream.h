#pragma once
// How the actions of a player are numbered.

#include <cstddef>

namespace shoal::replication::all {

/// The actions of one player are numbered in two streams. If an action of the ordered stream is rejected, the
/// later actions of this stream that the client called before it knew of the rejection are dropped. The
/// actions of the independent stream do not depend on each other.
enum class ActionStream : bool { ordered, independent };
inline constexpr std::size_t kActionStreams = 2;

}  // namespace shoal::replication::all
