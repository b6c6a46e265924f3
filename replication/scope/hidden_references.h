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

/// Calls fn(net_id) for each reference that is not null in what `view` shows of an image.
template <class Fn>
void for_each_reference(const Schema& schema, const Image& image, const View& view, Fn&& fn) {
    if (!image.shape || !image.shape->has_references) return;
    for (ImageCursor value(schema, image); !value.at_end(); value.next())
        if (view.shows(schema, value.component()))
            value.layout().for_each_reference(value.lanes(), value.parts(), fn);
}

/// The worst of what the references that `view` shows of an image name.
RefersTo worst_of(const Schema& schema, const Image& image, const View& view, const NameSight& sight);

/// Makes images as a peer sees them. Keeps its memory.
class HiddenReferences {
public:
    /// Returns a copy in which references that are not `seen` are null, and pairs with such targets are
    /// missing. It is in `words`, which must outlive it and must not be those of `image`.
    Image remove(const Image& image, const NameSight& sight, ShapeTable& shapes,
                 std::vector<std::uint32_t>& words);

private:
    void add_pairs(const ImageCursor& value, const NameSight& sight);

    std::vector<ComponentIndex> components_;
    std::vector<std::uint32_t> parts_;
};

}  // namespace shoal::replication::all
