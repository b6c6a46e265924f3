#pragma once
// How control messages travel: structs whose bits follow from their fields. WIRE.md specifies them. None is
// dropped if the queue of the connection is full: those of a server wait, see Server::send_control(), and a
// client sends what its state says, in a later update().

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../codec/bits.h"
#include "../schema/fields.h"
#include "message_kind.h"

namespace shoal::replication::impl {

/// An aggregate of numbers, bools, enums, strings, vectors, arrays and aggregates of these. An aggregate with
/// values out of their range has a function is_valid().
template <class T>
concept ControlMessage = requires {
    { T::kKind } -> std::convertible_to<MessageKind>;
};

template <class T>
concept ControlList = requires(T& list, typename T::value_type element) {
    list.push_back(element);
};

template <class T>
void write_field(const T& value, BitWriter& out) {
    if constexpr (std::is_same_v<T, bool>) {
        out.write_bool(value);
    } else if constexpr (std::is_enum_v<T>) {
        write_field(static_cast<std::underlying_type_t<T>>(value), out);
    } else if constexpr (std::is_integral_v<T>) {
        out.write(static_cast<std::make_unsigned_t<T>>(value), sizeof(T) * 8);
    } else if constexpr (requires { value.begin(); }) {
        if constexpr (ControlList<T>) out.write_golomb(static_cast<std::uint32_t>(value.size()), 0);
        for (const auto& element : value) write_field(element, out);
    } else if constexpr (!std::is_empty_v<T>) {
        for_each_field(value, [&](const auto& field) { write_field(field, out); });
    }
}

template <class T>
void read_field(T& value, BitReader& in) {
    if constexpr (std::is_same_v<T, bool>) {
        value = in.read_bool();
    } else if constexpr (std::is_enum_v<T>) {
        std::underlying_type_t<T> number{};
        read_field(number, in);
        value = static_cast<T>(number);
    } else if constexpr (std::is_integral_v<T>) {
        std::uint64_t number = in.read(sizeof(T) * 8 < 32 ? sizeof(T) * 8 : 32);
        if constexpr (sizeof(T) == 8) number |= std::uint64_t{in.read(32)} << 32;
        value = static_cast<T>(number);
    } else if constexpr (ControlList<T>) {
        // Each element takes a bit or more, so a message bounds the list, before is_valid() does.
        for (std::uint32_t left = in.read_golomb(0); left > 0 && in.ok(); --left) {
            typename T::value_type element{};
            read_field(element, in);
            value.push_back(std::move(element));
        }
    } else if constexpr (requires { value.begin(); }) {
        for (auto& element : value) read_field(element, in);
    } else if constexpr (!std::is_empty_v<T>) {
        for_each_field(value, [&](auto& field) { read_field(field, in); });
    }
    if constexpr (requires { value.is_valid(); })
        if (!value.is_valid()) in.fail();
}

inline std::vector<std::byte> to_bytes(const BitWriter& bits) {
    std::vector<std::byte> bytes(bits.byte_count());
    bits.copy_to(bytes);
    return bytes;
}

template <ControlMessage T>
std::vector<std::byte> write_control(const T& message) {
    BitWriter out;
    write_field(T::kKind, out);
    write_field(message, out);
    return to_bytes(out);
}

/// `bytes`: of a control message, without the first one, which says the kind; or of another aggregate.
/// Returns nothing if they are malformed. Any bytes are safe.
template <class T>
std::optional<T> read_control(std::span<const std::byte> bytes) {
    BitReader in(bytes);
    T message;
    read_field(message, in);
    return in.at_padding() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace shoal::replication::impl
