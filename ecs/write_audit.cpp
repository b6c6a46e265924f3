#include "write_audit.h"

#include <cassert>

namespace shoal::ecs::impl {

std::uint64_t WriteAudit::hash_bytes(const void* value, std::size_t size) {
    return hash_name({static_cast<const char*>(value), size});
}

void WriteAudit::watch(ComponentId id, Hash hash) {
    if (told_.watch(id) == watched_.size()) watched_.push_back({id, hash, {}});
}

std::vector<WriteAudit::Missed> WriteAudit::compare() {
    assert(!world_.is_deferring());  // else calls of change hooks may still be queued
    std::vector<Missed> missed;
    if (world_.is_deferring()) return missed;
    for (const ChangeCollector::Change change : told_.changes())
        for (std::uint32_t w = 0; w < watched_.size(); ++w)
            if (change.has(w) && change.entity.index < watched_[w].known.size())
                watched_[w].known[change.entity.index] = {};
    told_.clear();
    world_.each_archetype([&](const Archetype& archetype) {
        for (Watched& watched : watched_) compare(archetype, watched, missed);
    });
    return missed;
}

void WriteAudit::compare(const Archetype& archetype, Watched& watched, std::vector<Missed>& missed) {
    std::vector<const Column*> columns;  // several, if the entities have several pairs of a relation
    for (const Column& column : archetype.columns())
        if (column.hook_id() == watched.id) columns.push_back(&column);
    if (columns.empty() || columns[0]->type().is_tag()) return;
    for (std::uint32_t row = 0; row < archetype.size(); ++row) {
        const Entity entity = archetype.entities()[row];
        std::uint64_t hash = 0;
        for (const Column* column : columns)
            hash = hash * 0x9E37'79B9'7F4A'7C15 + watched.hash(column->at(row), column->type().size);
        if (entity.index >= watched.known.size()) watched.known.resize(entity.index + std::size_t{1});
        Known& known = watched.known[entity.index];
        if (known.entity == entity && known.hash != hash)
            missed.push_back({entity, watched.id, columns[0]->type().name});
        known = {entity, hash};
    }
}

}  // namespace shoal::ecs::impl
