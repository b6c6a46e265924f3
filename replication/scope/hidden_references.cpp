#include "hidden_references.h"

#include <algorithm>

namespace shoal::replication::all {

RefersTo worst_of(const Schema& schema, const Image& image, const View& view, const NameSight& sight) {
    RefersTo worst = RefersTo::seen;
    for_each_reference(schema, image, view, [&](NetId net_id) { worst = std::max(worst, sight(net_id)); });
    return worst;
}

Image HiddenReferences::remove(const Image& image, const NameSight& sight, ShapeTable& shapes,
                               std::vector<std::uint32_t>& words) {
    const Schema& schema = shapes.schema();
    components_.clear();
    parts_.clear();
    words.clear();
    for (ImageCursor value(schema, image); !value.at_end(); value.next()) {
        const ComponentLayout& layout = value.layout();
        const std::size_t lanes_at = words.size(), parts_at = parts_.size();
        if (schema.components()[value.component()].pairs) {
            add_pairs(value, sight);
            if (parts_[parts_at] == 0 && value.parts()[0] != 0) {
                parts_.resize(parts_at);
                continue;
            }
        } else {
            parts_.insert(parts_.end(), value.parts(), value.parts() + value.part_words());
        }
        components_.push_back(value.component());
        words.insert(words.end(), value.lanes(), value.lanes() + layout.lanes().size());
        layout.for_each_reference(words.data() + lanes_at, parts_.data() + parts_at,
                                  [&](std::uint32_t& lane) {
                                      if (sight(lane) != RefersTo::seen) lane = 0;
                                  });
    }
    words.insert(words.end(), parts_.begin(), parts_.end());
    return {shapes.shape(components_), words};
}

/// Appends the pairs whose targets are seen. The target is the first lane of a row.
void HiddenReferences::add_pairs(const ImageCursor& value, const NameSight& sight) {
    const std::size_t count_at = parts_.size(), row_lanes = value.layout().parts()[0].lanes.size();
    parts_.push_back(0);
    const std::uint32_t* row = value.parts() + 1;
    for (std::uint32_t n = 0; n < value.parts()[0]; ++n, row += row_lanes) {
        if (sight(*row) != RefersTo::seen) continue;
        parts_.insert(parts_.end(), row, row + row_lanes);
        parts_[count_at] += 1;
    }
}

}  // namespace shoal::replication::all
