#pragma once
// References to entities that a peer does not see. They read as null, and pairs with such a target are left
// out, so that nothing says that the entity exists.

#include <cstdint>
#include <functional>
#include <vector>

#include "../history/net_ids.h"
#include "../schema/image.h"

namespace shoal::replication::all {

/// What a reference of an image names.
enum class RefersTo : std::uint8_t {
    seen,
    hidden,
    ended,  // an entity that ended after the image was made: not known who saw it
};
/// Says for one peer what a net id names. Not for 0.
using NameSight = std::function<RefersTo(NetId)>;

/// Calls fn(lane) for each reference in the words of a value that is not null; `lane` can be written.
template <class Fn>
void for_each_reference_lane(const ComponentLayout& layout, std::uint32_t* lanes, std::uint32_t* parts,
                             Fn&& fn) {
    for (const Lane& lane : layout.lanes()) {
        if (lane.kind == LaneKind::reference && *lanes != 0) fn(*lanes);
        ++lanes;
    }
    for (const Part& part : layout.parts()) {
        const std::uint32_t count = *parts++;
        for (std::uint32_t n = 0; n < count; ++n)
            for (const Lane& lane : part.lanes) {
                if (lane.kind == LaneKind::reference && *parts != 0) fn(*parts);
                ++parts;
            }
    }
}

/// The worst of what the references of an image name.
RefersTo worst_of(const Schema& schema, const Image& image, const NameSight& sight);

/// Makes images as a peer sees them. Keeps its memory.
class HiddenReferences {
public:
    /// Returns an image without the references that are not `seen`. The result is in `words`, which must not
    /// be those of `image`.
    Image remove(const Image& image, const NameSight& sight, ShapeTable& shapes,
                 std::vector<std::uint32_t>& words);

private:
    void add_pairs(const ImageCursor& value, const NameSight& sight);

    std::vector<ComponentIndex> components_;
    std::vector<std::uint32_t> parts_;
};

}  // namespace shoal::replication::all
