// Checks that ciphers, key exchanges, packets and tokens do not branch on secrets or use them as an index.
// Memory with secrets is marked as undefined, and valgrind reports every jump and every address that depends
// on it. `make secrets` runs this program with a net/crypto/primitives.cpp that marks as defined the results
// of open() and x25519(), and opened bytes.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "net/crypto/entropy.h"
#include "net/crypto/noise.h"
#include "net/crypto/packet_cipher.h"
#include "net/handshake/handshake.h"
#include "net/handshake/server_key.h"
#include "net/handshake/token.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>

using namespace shoal::net::impl;

namespace {

/// A number that depends on all results, so that the compiler cannot remove their computation.
unsigned total = 0;

void hide(std::span<const std::byte> bytes) {
    VALGRIND_MAKE_MEM_UNDEFINED(bytes.data(), bytes.size());
}
void show(std::span<const std::byte> bytes) {
    VALGRIND_MAKE_MEM_DEFINED(bytes.data(), bytes.size());
    for (const std::byte byte : bytes) total += unsigned(byte);
}
void show(bool& verdict) {
    show(std::as_bytes(std::span(&verdict, 1)));
}

SecretKey hidden_key(int first) {
    SecretKey key;
    for (std::size_t i = 0; i < kKeyBytes; ++i) key.bytes()[i] = std::byte(first * 41 + int(i) * 7);
    hide(key.bytes());
    return key;
}

void ciphers() {
    const SecretKey key = hidden_key(1);
    std::byte text[700] = {}, associated[21] = {};
    for (const std::size_t size : {0u, 1u, 15u, 16u, 64u, 65u, 192u, 193u, 700u}) {
        const std::span<std::byte> part(text, size);
        hide(part);
        Tag tag;
        seal(key, nonce_from(size), associated, part, tag);
        show(part);
        show(tag);
    }
    std::byte other[700] = {};
    hide(text);
    bool same = equal_in_constant_time(text, other);
    show(same);
}

void agreement() {
    const SecretKey key = hidden_key(2);
    const PublicKey public_key = x25519_public_key(key);
    show(public_key);
    SecretKey shared;
    for (const std::byte first : {std::byte(9), std::byte(1)}) {  // a valid point, and one of low order
        bool good = x25519(shared, key, {first});
        show(good);
        show(shared.bytes());
    }
}

void hashes() {
    std::byte text[200] = {};
    hide(text);
    show(blake2s(text, hidden_key(3).bytes()));
    SecretKey outputs[3] = {hidden_key(4)};
    hkdf(outputs[0], text, outputs);
    for (const SecretKey& output : outputs) show(output.bytes());
}

/// Stops the program if a result is wrong, because the functions below would then not cover their code.
void expect(bool is_true, const char* what) {
    if (is_true) return;
    std::printf("not as expected: %s\n", what);
    std::exit(1);
}

/// Seals and opens both messages of a key exchange, and a forged copy of each.
void exchange(NoiseExchange initiator, NoiseExchange responder, const SecretKey& private_key,
              const SecretKey& ephemeral) {
    std::byte first[300] = {}, second[100] = {}, forged[300];
    expect(initiator.write(ephemeral, first), "message 1");
    show(first);
    std::copy(std::begin(first), std::end(first), forged);
    forged[299] ^= std::byte(1);
    NoiseExchange other = responder;
    expect(!other.read(private_key, forged), "forged message 1");
    expect(responder.read(private_key, first), "message 1 opened");
    expect(responder.write(hidden_key(7), second), "message 2");
    show(second);
    std::copy(std::begin(second), std::end(second), forged);
    forged[99] ^= std::byte(1);
    expect(!initiator.read(ephemeral, std::span(forged).first(sizeof second)), "forged message 2");
    expect(initiator.read(ephemeral, second), "message 2 opened");
    NoiseKeys here = initiator.split(), there = responder.split();
    for (const SecretKey* key :
         {&here.to_initiator, &here.to_responder, &there.to_initiator, &there.to_responder})
        show(key->bytes());
    expect(equal_in_constant_time(here.to_initiator.bytes(), there.to_initiator.bytes()), "keys down");
    expect(equal_in_constant_time(here.to_responder.bytes(), there.to_responder.bytes()), "keys up");
}

void exchanges() {
    const std::byte prologue[26] = {std::byte(1)};
    const SecretKey private_key = hidden_key(5), ephemeral = hidden_key(8);
    const PublicKey known = public_key(private_key);
    show(known);
    exchange({prologue, known}, {prologue, known}, private_key, ephemeral);
}

/// Seals and opens packets and forged ones, with key updates.
void packets() {
    const SecretKey up = hidden_key(9), down = hidden_key(10);
    PacketCipher client(Security::sealed, 1, up, down, 1, Time(0));
    PacketCipher server(Security::sealed, 1, down, up, 1, Time(0));
    for (std::uint64_t number = 1; number <= 10; ++number) {
        const bool phase = client.prepare(number, number - 1, {2, std::chrono::minutes(1)}, Time(0));
        std::byte packet[100] = {};
        hide(packet);
        client.seal(number, packet, 7);
        show(packet);
        packet[50] ^= std::byte(1);
        expect(!server.open(number, phase, packet, 7, Time(0), Time(0)), "forged packet");
        packet[50] ^= std::byte(1);
        expect(server.open(number, phase, packet, 7, Time(0), Time(0)), "packet");
    }
}

void tokens() {
    Bytes32 fresh{};
    hide(fresh);
    const SecretKey backend = hidden_key(11);
    const Address server = Address::ipv4(1, 2, 3, 4, 5);
    const std::byte claims[20] = {};
    PublicKey known{};
    known[0] = std::byte(1);
    const auto token = issue_token({1, 2, 1000, std::span(&server, 1), claims, known}, backend, fresh);
    expect(token.has_value(), "token");
    show(token->sealed);
    TokenContents contents;
    std::vector<std::byte> forged = token->sealed;
    forged.back() ^= std::byte(1);
    expect(open_token(forged, backend, 1, std::span(&server, 1), 0, contents) == TokenError::forged,
           "forged token");
    expect(!open_token(token->sealed, backend, 1, std::span(&server, 1), 0, contents), "token opened");
    expect(contents.client_id == 2, "client id");
}

/// Derives keys from the seeds and keys of hosts and clients.
void numbers() {
    Seed seed{};
    hide(seed);
    Entropy entropy(seed);
    show(entropy.next_key().bytes());
    const std::uint64_t number = entropy.next();
    show(std::as_bytes(std::span(&number, 1)));
    const SecretKey private_key = hidden_key(13);
    const ResetKey resets(private_key, {}, 1, 1);
    const std::uint64_t salt = resets.make_salt(2, number), token = resets.token(2, salt);
    show(std::as_bytes(std::span(&salt, 1)));
    show(std::as_bytes(std::span(&token, 1)));
    bool missing = is_missing(private_key);
    show(missing);
}

}  // namespace

int main() {
    if (RUNNING_ON_VALGRIND == 0) {
        std::puts("this checks nothing outside valgrind");
        return 1;
    }
    ciphers();
    agreement();
    hashes();
    exchanges();
    packets();
    tokens();
    numbers();
    std::printf("no branch and no index on secrets (%u)\n", total);
}

#else

int main() {
    std::puts("skipped: no valgrind/memcheck.h on this machine");
}

#endif
