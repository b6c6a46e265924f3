#include "hooks.h"

#include <algorithm>
#include <cassert>

namespace shoal::ecs {

void Hook::disconnect() {
    // The function may own this handle: nothing of it is touched once the function may be gone.
    Hook gone(std::move(*this));
    if (gone.anchor_ != nullptr && gone.anchor_->table != nullptr)
        gone.anchor_->table->disconnect(gone.list_, gone.serial_);
    gone.drop_anchor();
}

void Hook::release() {
    drop_anchor();
}

Hook::operator bool() const {
    return anchor_ != nullptr && anchor_->table != nullptr && anchor_->table->is_connected(list_, serial_);
}

void Hook::drop_anchor() {
    if (anchor_ == nullptr) return;
    Anchor* anchor = std::exchange(anchor_, nullptr);
    if (--anchor->handles == 0 && anchor->table == nullptr) delete anchor;
}

HookTable::HookTable(ComponentTable& components)
    : components_(components), lists_(1), anchor_(new Hook::Anchor{this, 0}) {}

HookTable::~HookTable() {
    clear();
    if (--anchor_->handles == 0) delete anchor_;
}

void HookTable::clear() {
    assert(!is_running());
    if (std::exchange(is_closed_, true)) return;
    anchor_->table = nullptr;  // handles, also those inside functions destroyed below, do nothing now
    ++anchor_->handles;        // ours, until the table is gone
    for (std::size_t list = 0; list < lists_.size(); ++list)  // which what the functions own may make longer
        while (!lists_[list].empty()) {
            const Function function = lists_[list].back().function;
            lists_[list].pop_back();
            note(static_cast<std::uint32_t>(list));
            if (function.destroy != nullptr) function.destroy(function.state);
        }
}

Hook HookTable::connect(HookKind kind, ComponentId id, Function function) {
    const bool is_known = !id.is_pair() && id.value < components_.size();
    assert(is_known);
    if (is_known) {
        lists_.resize(std::max(lists_.size(), std::size_t{1} + 3 * std::size_t{components_.size()}));
        return connect_to(list_of(kind, id), function);
    }
    if (function.destroy != nullptr) function.destroy(function.state);
    return {};
}

Hook HookTable::connect_to(std::uint32_t list, Function function) {
    assert(function.call != nullptr);
    if (is_closed_) {
        if (function.destroy != nullptr) function.destroy(function.state);
        return {};
    }
    lists_[list].push_back({function, next_serial_});
    note(list);
    Hook hook;
    hook.anchor_ = anchor_;
    hook.list_ = list;
    hook.serial_ = next_serial_++;
    ++anchor_->handles;
    return hook;
}

void HookTable::disconnect(std::uint32_t list, std::uint64_t serial) {
    List& subscribers = lists_[list];
    for (std::size_t i = 0; i < subscribers.size(); ++i) {
        if (subscribers[i].serial != serial) continue;
        if (is_running()) {
            subscribers[i].function.call = nullptr;
            is_disconnected_ |= serial == running_serial_;
            dirty_lists_.push_back(list);
            return;
        }
        const Function function = subscribers[i].function;
        subscribers.erase(subscribers.begin() + static_cast<std::ptrdiff_t>(i));
        note(list);
        if (function.destroy != nullptr) function.destroy(function.state);  // may disconnect others
        return;
    }
}

/// Tells the component whether a list of its own has functions.
void HookTable::note(std::uint32_t list) {
    if (list == 0) return;
    KnownComponent& component = components_[ComponentId{(list - 1) / 3}];
    const unsigned bit = 1u << (list - 1) % 3;
    const unsigned others = component.hooks & ~bit;
    component.hooks = static_cast<std::uint8_t>(lists_[list].empty() ? others : others | bit);
}

bool HookTable::is_connected(std::uint32_t list, std::uint64_t serial) const {
    for (const Subscriber& subscriber : lists_[list])
        if (subscriber.serial == serial) return subscriber.function.call != nullptr;
    return false;
}

void HookTable::sweep() {
    while (!dirty_lists_.empty()) {
        const std::uint32_t list = dirty_lists_.back();
        List& subscribers = lists_[list];
        dirty_lists_.pop_back();
        for (std::size_t i = 0; i < subscribers.size(); ++i) {
            if (subscribers[i].function.call != nullptr) continue;
            const Function function = subscribers[i].function;
            subscribers.erase(subscribers.begin() + static_cast<std::ptrdiff_t>(i));
            note(list);
            if (function.destroy != nullptr) function.destroy(function.state);
            break;
        }
    }
}

}  // namespace shoal::ecs
