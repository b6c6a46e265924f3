#pragma once
// What a server answers to packets of a connection that it does not know, most likely because it was
// restarted: a token that only the owner of its private key can compute, and that the client was given, in
// secret, when it came in or moved. So the client learns at once what else a long silence would tell.
// Source: RFC 9000, section 10.3.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "../crypto/primitives.h"
#include "../socket/address.h"
#include "../stats.h"

namespace shoal::net {

using ResetToken = std::array<std::byte, 16>;
constexpr std::size_t kResetBytes = 1 + 4 + 16;

struct Reset {
    std::uint32_t connection_id = 0;
    ResetToken token{};
};

/// `packet`, in `buffer`.
std::span<const std::byte> write(const Reset& packet, std::span<std::byte, kResetBytes> buffer);
/// Fills `packet` and returns nothing, or returns why the datagram must be dropped.
std::optional<Drop> read(std::span<const std::byte> datagram, Reset& packet);

/// The same after a restart with the same private key and server id. Servers that share the key need an id
/// each: else one of them would make the tokens of another one's connections.
Key derive_reset_key(const Key& private_key, const PublicKey& public_key, std::uint64_t server_id);
/// For one connection, as long as its client stays at this address.
ResetToken make_reset_token(const Key& reset_key, std::uint64_t protocol_id, std::uint32_t connection_id,
                            const Address& client);

}  // namespace shoal::net
