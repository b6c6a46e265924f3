#include "hooks.h"

#include <algorithm>
#include <cassert>

namespace shoal::ecs::impl {

void Hook::disconnect() {
    // The function may own this handle, so the handle is moved out before the function can be destroyed.
    Hook gone(std::move(*this));
    if (gone.anchor_ != nullptr && gone.anchor_->table != nullptr)
        gone.anchor_->table->disconnect(gone.list_, gone.serial_);
    gone.drop_anchor();
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
    : components_(components), anchor_(new Hook::Anchor{this, 0}) {}

HookTable::~HookTable() {
    clear();
    if (--anchor_->handles == 0) delete anchor_;
}

void HookTable::clear() {
    assert(!is_running());
    if (std::exchange(is_closed_, true)) return;
    anchor_->table = nullptr;  // handles, also those owned by functions destroyed below, now do nothing
    ++anchor_->handles;        // the table counts as one handle until ~HookTable()
    // size() is read each time: destructors of objects that the functions own may register components.
    for (std::uint32_t list = 0; list < 1 + 3 * components_.size(); ++list)
        while (!list_at(list).empty()) {
            const HookFunction function = list_at(list).back().function;
            list_at(list).pop_back();
            if (function.destroy != nullptr) function.destroy(function.state);
        }
}

Hook HookTable::connect(HookKind kind, ComponentId id, HookFunction function) {
    const bool is_known = !id.is_pair() && id.value < components_.size();
    assert(is_known);
    if (is_known) return connect_to(1 + id.value * 3 + static_cast<std::uint32_t>(kind), function);
    if (function.destroy != nullptr) function.destroy(function.state);
    return {};
}

Hook HookTable::connect_to(std::uint32_t list, HookFunction function) {
    assert(function.call != nullptr);
    if (is_closed_) {
        if (function.destroy != nullptr) function.destroy(function.state);
        return {};
    }
    list_at(list).push_back({function, next_serial_});
    Hook hook;
    hook.anchor_ = anchor_;
    hook.list_ = list;
    hook.serial_ = next_serial_++;
    ++anchor_->handles;
    return hook;
}

void HookTable::disconnect(std::uint32_t list, std::uint64_t serial) {
    SubscriberList& subscribers = list_at(list);
    const auto at = std::ranges::find(subscribers, serial, &Subscriber::serial);
    if (at == subscribers.end()) return;
    if (is_running()) {
        at->function.call = nullptr;
        is_disconnected_ |= serial == running_serial_;
        return dirty_lists_.push_back(list);
    }
    const HookFunction function = at->function;
    subscribers.erase(at);
    if (function.destroy != nullptr) function.destroy(function.state);  // may disconnect other functions
}

bool HookTable::is_connected(std::uint32_t list, std::uint64_t serial) {
    const auto at = std::ranges::find(list_at(list), serial, &Subscriber::serial);
    return at != list_at(list).end() && at->function.call != nullptr;
}

/// Slow path of run(), for a list of any length.
void HookTable::run_several(const SubscriberList& list, const HookCall& call, bool reverse) {
    // The list may grow and be reallocated while its functions run; entries are erased only in sweep().
    const std::size_t count = list.size();
    for (std::size_t i = 0; i < count; ++i) {
        const Subscriber& subscriber = list[reverse ? count - 1 - i : i];
        if (subscriber.function.call != nullptr) run_one(subscriber, call);
    }
    running_serial_ = idle_serial_;
    if (!dirty_lists_.empty()) sweep();
}

void HookTable::sweep() {
    std::vector<HookFunction> gone;
    while (!dirty_lists_.empty()) {
        SubscriberList& subscribers = list_at(dirty_lists_.back());
        dirty_lists_.pop_back();
        const auto is_gone = [](const Subscriber& subscriber) { return subscriber.function.call == nullptr; };
        const auto at = std::find_if(subscribers.begin(), subscribers.end(), is_gone);
        if (at == subscribers.end()) continue;
        gone.push_back(at->function);
        subscribers.erase(at);
    }
    // Only after all lists are clean: destructors of the functions may write values, which calls hooks.
    for (const HookFunction& function : gone)
        if (function.destroy != nullptr) function.destroy(function.state);
}

}  // namespace shoal::ecs::impl
