#pragma once
// The codecs of fields: how a number, or a few of them, is turned into lanes.

#include <cstdint>

namespace shoal::replication::impl {

/// How one field is turned into lanes. Made by the functions below.
struct FieldCodec {
    enum class Kind : std::uint8_t {
        automatic,
        quantised,
        bounded,
        half_float,
        fixed_point,
        angle,
        unit_vector,
        smallest_three,
        any_float,
        ambiguous,  // an error, see combined()
    } kind = Kind::automatic;
    double min = 0, max = 0;
    double step = 0;  // for fixed_point(), angle(), unit_vector() and smallest_three(): the number of bits
    std::uint32_t max_length = 0;  // greatest length of the string or vector; 0: the default

    /// Returns this codec for the elements of a vector, which has at most `length` elements.
    constexpr FieldCodec up_to(std::uint32_t length) const {
        FieldCodec out = *this;
        out.max_length = length;
        return out;
    }

    bool operator==(const FieldCodec&) const = default;
};

/// A float or double as a number of steps above `min`. Values outside the range are clamped, and NaN becomes
/// `min`; Shadow::misfits() counts both. Requires min < max, step > 0, fewer than 2^32 steps, and a step not
/// finer than the precision of the field's type. If the step does not divide the range, the last whole step
/// is the greatest value.
constexpr FieldCodec quantised(double min, double max, double step) {
    return {FieldCodec::Kind::quantised, min, max, step, 0};
}
/// As quantised(), with 2^bits - 1 steps from min to max. Requires 1 to 32 bits.
constexpr FieldCodec quantised_bits(double min, double max, unsigned bits) {
    const bool fits = bits >= 1 && bits <= 32;
    const double steps = static_cast<double>((std::uint64_t{1} << (fits ? bits : 0)) - 1);
    return quantised(min, max, fits ? (max - min) / steps : 0);
}
/// An integer or enum in [min, max]. Values outside this range are clamped; Shadow::misfits() counts them.
/// Requires that min and max are whole numbers within +-2^53, fewer than 2^32 apart. An enum without a codec
/// can have any value of its underlying type, also one that no enumerator has, if the server is hostile.
constexpr FieldCodec bounded(double min, double max) {
    return {FieldCodec::Kind::bounded, min, max, 1, 0};
}
/// Greatest length of a string (bytes) or vector (elements). Longer ones are cut; Shadow::misfits() counts
/// them.
constexpr FieldCodec max_length(std::uint32_t length) {
    return {FieldCodec::Kind::automatic, 0, 0, 0, length};
}

/// A float or double as a float of 16 bits (IEEE 754 binary16): 11 significant bits. Values beyond +-65,504
/// are clamped and NaN becomes 0; misfits() counts both. -0 becomes 0.
constexpr FieldCodec half_float() {
    return {FieldCodec::Kind::half_float, 0, 0, 0, 0};
}
/// A float or double as a signed integer of 32 bits, in units of 2^-fraction_bits. Values outside are clamped
/// and NaN becomes 0; misfits() counts both. Requires 0 to 30 fraction bits.
constexpr FieldCodec fixed_point(unsigned fraction_bits) {
    return {FieldCodec::Kind::fixed_point, 0, 0, static_cast<double>(fraction_bits), 0};
}
/// A float or double in radians, as one of 2^bits equal parts of a turn. Any finite angle is legal and is
/// restored in [-pi, pi). NaN and infinities become 0; misfits() counts them. Requires 1 to 22 bits for a
/// float, 1 to 32 for a double.
constexpr FieldCodec angle(unsigned bits) {
    return {FieldCodec::Kind::angle, 0, 0, static_cast<double>(bits), 0};
}
/// Three neighbouring floats (or doubles) x, y, z that are a direction, as two numbers of `bits` bits.
/// Restored with length 1. misfits() counts vectors whose length is not 1, with a tolerance of 1%. Vectors
/// without a direction (of length 0, or not finite) become (0, 0, 1). Requires 2 to 16 bits.
constexpr FieldCodec unit_vector(unsigned bits) {
    return {FieldCodec::Kind::unit_vector, 0, 0, static_cast<double>(bits), 0};
}
/// Four neighbouring floats (or doubles) x, y, z, w that are a rotation (a quaternion), as three numbers of
/// `bits` bits and one of two bits. A quaternion and its negative are the same rotation: it is restored with
/// a positive greatest component. misfits() counts as unit_vector() does; a quaternion without a direction
/// becomes (0, 0, 0, 1). Requires 4 to 12 bits.
constexpr FieldCodec smallest_three(unsigned bits) {
    return {FieldCodec::Kind::smallest_three, 0, 0, static_cast<double>(bits), 0};
}

/// A float or double with its exact value, which may be NaN or infinite. Without a codec, too, the value is
/// exact, but a peer that sends NaN or infinities is malformed; an own NaN is sent as 0, and an infinity as
/// the greatest number of its sign; misfits() counts both.
constexpr FieldCodec any_float() {
    return {FieldCodec::Kind::any_float, 0, 0, 0, 0};
}

/// Returns one codec with the length of max_length() and the numbers of another codec. If both have a length,
/// or both are for numbers, the result is Kind::ambiguous, which is an error of the schema.
constexpr FieldCodec combined(const FieldCodec& a, const FieldCodec& b) {
    const bool has_numbers = b.kind != FieldCodec::Kind::automatic;
    FieldCodec out = has_numbers ? b : a;
    out.max_length = a.max_length + b.max_length;
    if ((has_numbers && a.kind != FieldCodec::Kind::automatic) || (a.max_length != 0 && b.max_length != 0))
        out.kind = FieldCodec::Kind::ambiguous;
    return out;
}

/// Returns how many scalars together are turned into lanes.
constexpr std::uint32_t scalars_of(FieldCodec::Kind kind) {
    return kind == FieldCodec::Kind::unit_vector ? 3 : kind == FieldCodec::Kind::smallest_three ? 4 : 1;
}

inline constexpr std::uint32_t kDefaultMaxString = 64;  // bytes
inline constexpr std::uint32_t kDefaultMaxVector = 16;  // elements

}  // namespace shoal::replication::impl
